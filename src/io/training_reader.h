// The `training` of a job.
#pragma once

#include <string>

#include "restow/io/document.h"
#include "restow/schema/training.h"

namespace restow {

inline constexpr int kFrameworks = 7;
inline constexpr int kOptimizers = 5;

// Errors: kBadInput with position.
Training ReadTraining(const Node& node);

// What a framework keeps where a job states one dtype only.
//   megatron, mindspeed, deepspeed: 16-bit weights and gradients added in fp32 beside an fp32
//   master and fp32
//     moments (Megatron-LM, distributed optimizer).
//   torchtitan, torch, hyperparallel: fp32 weights that are cast for compute and are their own
//     master, fp32 gradients and moments (PyTorch FSDP2, MixedPrecisionPolicy).
//   mindformers: fp32 weights, cast for compute (param_init_type float32 in its recipes).
// fp32 compute: everything fp32 without a master.
Precision PrecisionOf(Framework framework, DType compute);

DType ReadDType(const Node& node);

// `training.options`: the switches of a framework, each checked. Errors: kBadInput.
FrameworkOptions ReadFrameworkOptions(const Node& node);

// Modules a LoRA adapter may sit on.
const std::vector<std::string>& LoraTargets();

}  // namespace restow
