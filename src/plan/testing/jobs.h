// Jobs for tests: small ones drawn from a seed, and a few well-known models by hand.
#pragma once

#include <cstdint>

#include "restow/schema/job.h"

namespace restow::plan {

// An H100-like device with the shipped constants and the two usual levels.
Cluster TestCluster(int devices, Bytes memory);

// A llama-like dense model.
Model DenseModel(int layers, int hidden, int heads, int kv_heads, int ffn, int vocab);

// Llama-3-70B (arXiv:2407.21783, table 3) on `devices` H100s, 8192 tokens, global batch 512.
Job Llama70B(int devices);
// DeepSeek-V3 (arXiv:2412.19437, section 4.2) on `devices` H800s, 4096 tokens, global batch 15360.
Job DeepSeekV3(int devices);

// A small job with a random model, cluster, training and search space; the same for equal seeds.
Job RandomJob(std::uint64_t seed);

}  // namespace restow::plan
