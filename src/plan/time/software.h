// What the training software does with a step, beyond what a job's fields say: which overlaps it
// has, how it reduces gradients, how it launches experts. Its figures are in the calibration, under
// the profile's name ("traffic.megatron"); here are the switches that no figure can carry.
#pragma once

#include <string>

#include "restow/schema/calibration.h"
#include "restow/schema/training.h"

namespace restow::plan {

// How gradients become updated weights once per step, below ZeRO-3.
enum class ReduceStyle {
  kRing,       // reduce-scatter and all-gather (an all-reduce without sharding)
  kAllReduce,  // all-reduce, then all-gather (Megatron-DeepSpeed 2022)
  kBroadcast,  // all-reduce, then every rank broadcasts its shard (InternLM 2023)
};

struct SoftwareProfile {
  const char* name;
  double gradient_bytes;         // per parameter in the reduction, below ZeRO-3
  double sharded_gradient_bytes; // the same under ZeRO-3
  ReduceStyle reduce = ReduceStyle::kRing;
  bool nvidia_experts = false;   // one copy of a token per node, fused dispatch (DeepEP, HybridEP)
  bool fused_permute = false;
  bool measured_expert_host = false;  // the host floor of MoE layers was measured on it
  bool scattered_p2p = false;    // each tp rank sends its part of the activation, also without sp
  bool overlapped_p2p = false;   // interleaved schedules hide most of their hops
  bool old_attention = false;    // Ampere-style flash kernels also on Hopper
  bool sharded_copies = false;   // FSDP2: gathered weights are copied out of and into one buffer
  bool dropout_softmax = false;  // unfused attention with dropout: more passes over the scores
  bool compiled = false;         // torch.compile on the blocks unless the job says otherwise
  bool current_scaling = false;  // its low-precision default since 2025-09
  const char* eager = nullptr;   // profile that prices it when compilation is off
};

// The profile by name. Errors: kInternal for an unknown name (the calibration file names one).
const SoftwareProfile& ProfileNamed(const std::string& name);

// By the longest entry of the calibration's software table that starts the release's text (case
// ignored), else by framework.
const SoftwareProfile& ProfileOf(const Training& training, const Calibration& calibration);

// "release.<entry>" of the calibration for the same entry, else 1.
double ReleaseFactor(const Training& training, const Calibration& calibration);

}  // namespace restow::plan
