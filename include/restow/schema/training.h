// How it is trained: batch, precision, kernels and the framework whose rules and buffers are
// priced.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "restow/base/quantity.h"
#include "restow/schema/cluster.h"

namespace restow {

enum class Framework {
  kMegatron,
  kTorchtitan,
  kTorch,
  kMindSpeed,
  kMindFormers,
  kHyperParallel,
  kDeepSpeed,  // Megatron-DeepSpeed: pipelines, ZeRO-1 and -3, BF16_Optimizer
};
enum class Optimizer { kAdamW, kAdam, kSgd, kMuon, kAdafactor };
enum class AttentionKernel { kFlash, kUnfused };
enum class LossKernel { kFused, kUnfused, kChunked };

const char* Name(Framework framework);
const char* Name(Optimizer optimizer);
const char* Name(AttentionKernel kernel);
const char* Name(LossKernel kernel);

struct Precision {
  DType compute = DType::kBf16;
  DType weights = DType::kBf16;
  DType gradients = DType::kFp32;
  std::optional<DType> master = DType::kFp32;  // empty: weights are their own master
  DType optimizer = DType::kFp32;              // each moment
};

struct Lora {
  int rank = 0;
  std::vector<std::string>
      targets;  // module names: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj
};

// Switches of a framework or recipe that no other field states; the names are those of the
// `switches` column of data/measured-runs.csv. An empty optional means: the framework's default.
struct FrameworkOptions {
  std::optional<std::string> te;          // TransformerEngine version, or "none"
  std::optional<bool> wgrad_fusion;       // weight gradients added straight into the main gradient
  std::optional<double> grad_bytes;       // per parameter
  std::optional<double> optimizer_bytes;  // per parameter: all states and the master together
  std::optional<std::string> loss;        // te-fused, native-fused, unfused
  std::optional<int> vocabulary_unit;     // the vocabulary is padded to a multiple of this · tp
  std::optional<bool> softmax_fp32;       // unfused attention falls back to fp32 scores
  std::optional<double> dropout;          // probability; 0: none
  std::optional<bool> deterministic;
  std::optional<bool> flash_attention_bshd;  // batch-first kernel under a sequence-first model
  std::optional<std::string> fp8_recipe;     // delayed, current-scaling, mx, rowwise
  std::optional<bool> moe_grouped;           // grouped products over experts
  std::optional<bool> moe_pad;               // capacity factor 1, padded
  std::optional<double> moe_imbalance;       // tokens of the worst rank over the mean; 1: balanced
  std::optional<std::string> moe_launch;     // eager, partial, full
  std::optional<std::string> dispatcher;     // all-to-all, deep-ep
  std::optional<bool> ep_overlap;
  std::optional<bool> tp_overlap;
  std::optional<bool> async_tp;
  std::optional<bool> compile;          // torch.compile on the blocks
  std::optional<int> interleave_group;  // micro-batches in a group of the interleaved schedule
  std::vector<int> chunk_layers;        // layers of each (virtual) stage, in order
  std::vector<int> first_last_layers;   // of the first and last stage
  std::optional<bool> embedding_and_loss_count_as_layers;
  std::optional<int> deferred_embedding_wgrad;
  std::optional<bool> reuse_fp32_params;
  std::optional<bool> optimizer_swapped;
  std::optional<bool> attention_offloaded;
  std::optional<bool> read_after_first_iteration;
  std::optional<std::string> placement;        // numa-tuned
  std::optional<std::string> grad_accumulate;  // fp32-separate-kernel
  std::optional<std::string> activation;       // clamped-swiglu-bias
  std::vector<std::string>
      recompute_modules;  // what `selective` reruns; empty: the framework's list
};

struct Training {
  int sequence = 0;      // tokens
  int global_batch = 0;  // sequences
  Precision precision;
  Optimizer optimizer = Optimizer::kAdamW;
  AttentionKernel attention = AttentionKernel::kFlash;
  LossKernel loss = LossKernel::kFused;
  std::vector<std::string> frozen;  // module globs, names as in docs/planner.md
  std::optional<Lora> lora;
  Framework framework = Framework::kMegatron;
  std::string release;  // of the framework, as its authors name it; may be empty
  FrameworkOptions options;
  int visual_tokens = 0;  // tower tokens of one sequence, before merging; 0: the tower's default
};

}  // namespace restow
