// The job's framework as far as it decides bytes: every switch with its default filled in, looked
// up once. The defaults, their reasons and sources stand in software.cc and nowhere else.
#pragma once

#include <cstdint>

#include "restow/schema/job.h"

namespace restow::plan {

// Bytes per logit that are alive at once and what else a loss holds; see head.cc.
enum class LossStyle {
  kMegatronFused,    // TransformerEngine's parallel cross-entropy: gradient overwrites the logits
  kMegatronUnfused,  // bf16 logits and one fp32 copy; `native-fused` is equal in bytes
  kMegatron2022,     // bf16 logits, an fp32 copy and its exponential out of place
  kMegatronChunked,  // the same fp32 copy for one eighth of the tokens at a time
  kTorchCompiled,    // casts fused into the kernel
  kTorchEager,       // fp32 log-softmax and two gradients
  kTorchEager2024,   // torchtitan of March 2024: bf16 log-softmax, logits kept by the caller
  kTorchChunked,     // eight chunks of tokens
};

// Immutable; shared by threads. Holds a reference to the job, which must outlive it.
class MemorySoftware {
 public:
  // Throws kBadInput on a TransformerEngine version it cannot read, on a frozen glob or a LoRA
  // target that names nothing.
  // Implicit, so that a single price can be asked for with a job; a search makes one and keeps it.
  MemorySoftware(const Job& job);  // NOLINT(google-explicit-constructor)
  MemorySoftware(const MemorySoftware&) = delete;
  MemorySoftware& operator=(const MemorySoftware&) = delete;

  const Job& job() const { return *job_; }

  // Family of formulas.
  Framework framework = Framework::kMegatron;
  bool megatron_like =
      true;             // Megatron-LM's lists and buffers; else PyTorch autograd's and FSDP2's
  bool eager = false;   // torch: operators save one by one, nothing fused by a compiler
  bool ascend = false;  // attention keeps 64 bytes per head and token
  bool expert_output_kept = false;  // routing weight applied after the experts (MindSpeed)
  int generation = 0;               // of the NVIDIA device: 80, 90, 100; 0: another maker's

  // TransformerEngine.
  bool te = false;
  bool placeholders_dense = false;    // wgrad stand-ins of linears: TE 2.3
  bool placeholders_grouped = false;  // of grouped linears: TE 2.10
  bool exchange_copy = false;         // all-to-all cp keeps the output twice: TE 2.8
  bool wgrad_fusion = false;
  bool moe_grouped = false;

  // Kernels and switches of the recipe.
  bool fused_attention = true;
  bool softmax_fp32 = false;
  bool dropout = false;
  bool deterministic = false;
  bool first_torchtitan = false;  // its loop of March 2024: eager loss, much allocator slack
  bool pipeline_inputs =
      false;  // a received activation is kept beside what it grows into (DeepSpeed)
  bool batch_first_attention = false;
  bool moe_pad = false;
  double moe_imbalance = 1;
  bool attention_offloaded = false;
  int deferred_wgrad = 0;
  int vocabulary_unit = 128;  // the vocabulary is padded to a multiple of this times tp; 1: not
  LossStyle loss = LossStyle::kMegatronFused;

  // Bytes per element or parameter.
  std::int64_t element = 2;     // of a saved tensor in the compute dtype
  double weight_bytes = 2;      // of a parameter as held
  double gradient_bytes = 4;    // of a trainable parameter
  double optimizer_bytes = 12;  // of a trainable parameter: master and all moments
  double master_bytes = 4;      // of those, the master's
  double moment_bytes = 8;      // of those, the moments'
  double table_bytes = 0;  // more of them for embedding and output table (Muon runs AdamW there)
  double unsharded_step_bytes = 0;  // per trainable parameter where nothing is sharded
  double step_bytes = 0;            // per element of state, while the optimizer steps
  bool step_per_tensor = false;     // instead: fp32 copy of the largest shard of one parameter

  bool optimizer_swapped = false;
  bool first_iteration = false;  // the figure is read after one iteration: no moments before it
  bool late_gradients = false;   // torch: the only backward of a step makes the gradients
  bool bucket_copy = false;      // torch DDP: buckets beside the gradients
  bool weight_casts = false;     // torch autocast: compute-dtype copies of fp32 weights
  bool sharded_masters = false;  // FSDP2 shards the master; weights exist when gathered only

  // What trains.
  std::uint64_t frozen_towers = 0;               // bit per tower of which nothing trains
  bool qkv_trains = true, output_trains = true;  // products whose weight gradient wants the input
  bool up_trains = true, down_trains = true;
  bool norms_train = true;

  bool tower_frozen(int tower) const { return tower >= 0 && ((frozen_towers >> tower) & 1) != 0; }

 private:
  const Job* job_;
};

}  // namespace restow::plan
