#include "plan/memory/software.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "plan/frozen.h"

namespace restow::plan {
namespace {

double Width(DType dtype) {
  switch (dtype) {
    case DType::kFp32:
      return 4;
    case DType::kBf16:
    case DType::kFp16:
      return 2;
    case DType::kFp8:
      return 1;
    case DType::kFp4:
      return 0.5;
  }
  return 2;
}

// Silicon of the device presets. TransformerEngine and cuBLAS size their workspaces by generation
// ([TE] module/base.py, PyTorch CUDABlas.cpp): 32 MiB from sm90 on, less before. AMD's ROCm builds
// have neither TE's fused linears in Megatron-LM nor cuBLAS; other silicon has no known workspace.
int GenerationOf(std::string_view silicon) {
  const auto starts = [&](std::string_view prefix) {
    return silicon.substr(0, prefix.size()) == prefix;
  };
  if (starts("v100")) return 70;
  if (starts("a100") || starts("a800")) return 80;
  if (starts("h100") || starts("h200") || starts("h800") || starts("h20") || starts("gh200")) {
    return 90;
  }
  if (starts("b200") || starts("b300") || starts("gb200") || starts("gb300")) return 100;
  return 0;
}

// "2.11" -> 2011; "2.x" is the newest 2; "none" or "" -> 0.
int ParseVersion(const Job& job, std::string_view text) {
  if (text.empty() || text == "none") return 0;
  int major = 0, minor = 999;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, major);
  const bool pointed = first.ec == std::errc() && first.ptr != end && *first.ptr == '.';
  if (!pointed) {
    ThrowBadInput(
        fmt::format("'{}' is no TransformerEngine version; write 2.11, 2.x or none", text),
        job.At("training.options.te"));
  }
  std::from_chars(first.ptr + 1, end, minor);
  return major * 1000 + minor;
}

// Megatron-LM's own layers are TransformerEngine's; the snapshot the formulas were read from runs
// 2.11. MindSpeed and MindFormers have none of it, and TE does not support devices before sm80.
void ResolveTransformerEngine(const Job& job, MemorySoftware* s) {
  if (s->framework != Framework::kMegatron || s->generation < 80) return;
  const FrameworkOptions& options = job.training.options;
  const int version = ParseVersion(job, options.te ? std::string_view(*options.te) : "2.11");
  s->te = version > 0;
  s->wgrad_fusion = options.wgrad_fusion.value_or(true);  // Megatron-LM's default
  // SimuMax v1.2 found these versions; see memory-model.md section 4.
  s->placeholders_dense = s->wgrad_fusion && version >= 2003;
  s->placeholders_grouped = s->wgrad_fusion && version >= 2010;
  s->exchange_copy = version >= 2008;
}

LossStyle MegatronLoss(const Training& training) {
  if (training.framework == Framework::kDeepSpeed) return LossStyle::kMegatron2022;
  const std::optional<std::string>& stated = training.options.loss;
  if (stated == "te-fused") return LossStyle::kMegatronFused;
  // `native` fuses operators of the same unfused algorithm: equal bytes (Megatron-LM
  // fused_cross_entropy.py).
  if (stated == "native-fused" || stated == "unfused") return LossStyle::kMegatronUnfused;
  if (training.loss == LossKernel::kFused) return LossStyle::kMegatronFused;
  if (training.loss == LossKernel::kUnfused) return LossStyle::kMegatronUnfused;
  return LossStyle::kMegatronChunked;
}

LossStyle TorchLoss(const Training& training, bool first_torchtitan) {
  if (training.loss == LossKernel::kChunked) return LossStyle::kTorchChunked;
  if (training.loss == LossKernel::kFused) return LossStyle::kTorchCompiled;
  return first_torchtitan ? LossStyle::kTorchEager2024 : LossStyle::kTorchEager;
}

double MomentsOf(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kAdamW:
    case Optimizer::kAdam:
      return 2;
    case Optimizer::kSgd:   // momentum
    case Optimizer::kMuon:  // momentum of matrices; tables run AdamW, see table_bytes
      return 1;
    case Optimizer::kAdafactor:  // row and column sums of the second moment: thousandths of a byte
      return 0;
  }
  return 2;
}

// DeepSpeed accumulates 16-bit gradients as they are; its BF16_Optimizer adds them into an fp32
// buffer of its own that no rank shards, and its fp16 optimizer without ZeRO keeps fp32 copies of
// the gradients too (DeepSpeed bf16_optimizer.py, unfused_optimizer.py; memory-model.md section
// 11).
void ResolveDeepSpeed(const Job& job, MemorySoftware* s) {
  const FrameworkOptions& options = job.training.options;
  const bool bf16 = job.training.precision.compute == DType::kBf16;
  if (!options.grad_bytes) s->gradient_bytes = bf16 ? 6 : 2;
  s->unsharded_step_bytes = bf16 || options.optimizer_bytes ? 0 : 4;
}

void ResolveStates(const Job& job, MemorySoftware* s) {
  const Precision& precision = job.training.precision;
  const FrameworkOptions& options = job.training.options;
  const double moment = Width(precision.optimizer);
  s->weight_bytes = Width(precision.weights);
  s->gradient_bytes = options.grad_bytes.value_or(Width(precision.gradients));
  s->master_bytes = precision.master ? Width(*precision.master) : 0;
  s->moment_bytes = moment * MomentsOf(job.training.optimizer);
  s->table_bytes = job.training.optimizer == Optimizer::kMuon ? moment : 0;
  s->optimizer_bytes = options.optimizer_bytes.value_or(s->master_bytes + s->moment_bytes);
  if (options.optimizer_bytes) {
    s->master_bytes = std::min(s->master_bytes, s->optimizer_bytes);
    s->table_bytes = 0;
  }
  if (s->framework == Framework::kDeepSpeed) ResolveDeepSpeed(job, s);
  // MindSpeed's --reuse-fp32-param: the weights are the upper halves of the master.
  if (options.reuse_fp32_params.value_or(false)) s->optimizer_bytes -= 2;
  s->optimizer_swapped = options.optimizer_swapped.value_or(false);
  s->first_iteration = options.read_after_first_iteration.value_or(false);
}

// Temporaries of the step. Megatron-LM's precision-aware optimizer widens 2-byte moments to fp32
// for the whole shard (rows skill-003..006); MindSpeed's AdamW goes parameter by parameter (section
// 12); PyTorch's default `foreach` AdamW takes a square root of every second moment at once,
// torchtitan and HyperParallel run the fused kernel, which takes none.
void ResolveStep(const Job& job, MemorySoftware* s) {
  const bool adam = MomentsOf(job.training.optimizer) == 2;
  const double moment = Width(job.training.precision.optimizer);
  if (s->framework == Framework::kMegatron) {
    const bool narrow =
        job.training.options.optimizer_bytes ? s->optimizer_bytes == 8.0 : s->moment_bytes == 4.0;
    if (adam && narrow) s->step_bytes = 4;
  } else if (s->megatron_like) {
    s->step_per_tensor = true;
  } else if (s->framework == Framework::kTorch && adam) {
    s->step_bytes = moment;
  }
}

void ResolveTorchSharding(const Job& job, MemorySoftware* s) {
  if (s->megatron_like) return;
  const Precision& precision = job.training.precision;
  s->sharded_masters = s->master_bytes > 0;
  s->late_gradients = s->framework == Framework::kTorch;
  s->bucket_copy = s->framework == Framework::kTorch;
  s->weight_casts =
      Width(precision.weights) > Width(precision.compute) && Width(precision.compute) >= 2;
}

// Under LoRA only products with an adapter want their input for a weight gradient.
void ResolveAdapters(const Training& training, MemorySoftware* s) {
  if (!training.lora) return;
  const auto any = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (HasAdapter(training, name)) return true;
    }
    return false;
  };
  s->qkv_trains = any({"q_proj", "k_proj", "v_proj", "q_a_proj", "kv_a_proj_with_mqa"});
  s->output_trains = any({"o_proj"});
  s->up_trains = any({"gate_proj", "up_proj"});
  s->down_trains = any({"down_proj"});
  s->norms_train = false;
}

void ResolveKernels(const Training& training, MemorySoftware* s) {
  const FrameworkOptions& options = training.options;
  s->fused_attention = training.attention == AttentionKernel::kFlash;
  s->softmax_fp32 = options.softmax_fp32.value_or(false);
  // Today's pretraining runs without; Megatron-DeepSpeed's recipes of 2022 ran with it.
  const bool old = training.framework == Framework::kDeepSpeed;
  s->dropout = options.dropout.value_or(old ? 0.1 : 0.0) > 0;
  s->deterministic = options.deterministic.value_or(false);
  // The runs measured let TE pick cuDNN, which is sequence-first too (section 5, last open
  // question).
  s->batch_first_attention = options.flash_attention_bshd.value_or(false);
  s->moe_grouped = options.moe_grouped.value_or(true);   // --moe-grouped-gemm of every recipe read
  s->moe_pad = options.moe_pad.value_or(false);          // dropless routing
  s->moe_imbalance = options.moe_imbalance.value_or(1);  // the mean; worst routing is a job setting
  s->attention_offloaded = options.attention_offloaded.value_or(false);
  s->deferred_wgrad = options.deferred_embedding_wgrad.value_or(0);
}

}  // namespace

MemorySoftware::MemorySoftware(const Job& job) : job_(&job) {
  const Training& training = job.training;
  CheckFrozen(job);
  framework = training.framework;
  megatron_like = framework == Framework::kMegatron || framework == Framework::kMindSpeed ||
                  framework == Framework::kMindFormers || framework == Framework::kDeepSpeed;
  first_torchtitan =
      framework == Framework::kTorchtitan && training.release.find("2024-03") != std::string::npos;
  pipeline_inputs = framework == Framework::kDeepSpeed;
  ascend = framework == Framework::kMindSpeed || framework == Framework::kMindFormers ||
           framework == Framework::kHyperParallel;
  expert_output_kept = megatron_like && ascend;
  eager = !megatron_like && !training.options.compile.value_or(framework == Framework::kTorchtitan);
  generation = ascend ? 0 : GenerationOf(job.cluster.device.silicon);
  ResolveKernels(training, this);
  ResolveTransformerEngine(job, this);
  // Megatron-LM pads to 128·tp (--make-vocab-size-divisible-by); FSDP2 and DTensor do not pad.
  vocabulary_unit = megatron_like ? training.options.vocabulary_unit.value_or(128) : 1;
  loss = megatron_like ? MegatronLoss(training) : TorchLoss(training, first_torchtitan);
  element = Width(training.precision.compute) >= 4 ? 4 : 2;  // fp8 products keep bf16 activations
  ResolveStates(job, this);
  ResolveStep(job, this);
  ResolveTorchSharding(job, this);
  ResolveAdapters(training, this);
  for (std::size_t t = 0; t < job.model.towers.size() && t < 64; ++t) {
    if (IsTowerFrozen(job, static_cast<int>(t))) frozen_towers |= std::uint64_t{1} << t;
  }
}

}  // namespace restow::plan
