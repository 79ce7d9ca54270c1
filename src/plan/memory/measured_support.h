// Published runs as jobs: what a row of measured runs and the launch script behind it say, and the
// peak that was printed.
#pragma once

#include <string>
#include <vector>

#include "plan/memory/test_support.h"

namespace restow::plan::testing {

enum class Figure { kWorst, kLastStage, kReserved };

struct MeasuredRun {
  const char* id = "";
  double measured = 0;   // GiB, as printed by the run
  double prototype = 0;  // GiB allocated, by the independent Python statement of the formulas
  Figure figure = Figure::kWorst;
  Framework framework = Framework::kMegatron;
  const char* silicon = "h100";
  int layers = 0, hidden = 0, width = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0;
  int experts = 0, topk = 0, expert_width = 0, shared_width = 0, first_dense = 0;
  bool mla = false;  // kv_rank 512, 128 + 64, value 128
  int q_rank = 1536;
  bool gated = true, tied = false;
  int sequence = 0, micro_batch = 1;
  int dp = 1, tp = 1;
  bool sp = false;
  int cp = 1, ep = 1, etp = 1, pp = 1, vpp = 1, micro_batches = 1;
  bool full = false, selective = false;
  int block = 0;  // layers of each chunk recomputed in full
  std::vector<std::string> modules = {};
  bool bias = false, layernorm = false, dropout = false, learned_positions = false;
  bool fused_attention = true, softmax_fp32 = false, fused_loss = false, wgrad_fusion = true;
  const char* te = "2.11";
  int mtp = 0;
  std::vector<int> chunk_layers = {};
  bool qk_norm = false, moe_pad = false, moe_grouped = true;
  bool reuse_fp32 = false, swapped = false, offloaded = false, batch_first = false;
  int group = 0;
  bool deterministic = false, first_iteration = false;
  double grad_bytes = 4, optimizer_bytes = 12;
  int vocabulary_unit = 128, deferred = 0, zero = 1;
  const char* release = "";
  bool all_to_all = false;
};

inline LayerKind KindOf(const MeasuredRun& run, bool moe) {
  LayerKind kind = DenseKind(run.hidden, run.width, run.heads, run.kv_heads, run.head_dim);
  if (run.mla) kind.attention.latent = LatentAttention{run.q_rank, 512, 128, 64, 128};
  kind.attention.qk_norm = run.qk_norm;
  kind.attention.qkv_bias = kind.attention.output_bias = kind.feed_forward.bias = run.bias;
  kind.norm_bias = run.layernorm;
  kind.feed_forward.gated = run.gated;
  if (moe) {
    Experts experts;
    experts.count = run.experts;
    experts.per_token = run.topk;
    experts.width = run.expert_width;
    experts.shared_width = run.shared_width;
    kind.feed_forward.experts = experts;
  }
  return kind;
}

inline void SetModel(const MeasuredRun& run, Model* model) {
  model->stack.kinds = {KindOf(run, false)};
  if (run.experts > 0) model->stack.kinds.push_back(KindOf(run, true));
  for (int i = 0; i < run.layers; ++i) {
    model->stack.order.push_back(run.experts > 0 && i >= run.first_dense ? 1 : 0);
  }
  model->vocab = run.vocab;
  model->tied = run.tied;
  model->positions = run.learned_positions ? run.sequence : 0;
  model->mtp_layers = run.mtp;
  model->mtp_kind = run.experts > 0 ? 1 : 0;
}

inline void SetOptions(const MeasuredRun& run, FrameworkOptions* options) {
  options->te = run.te;
  options->wgrad_fusion = run.wgrad_fusion;
  options->grad_bytes = run.grad_bytes;
  options->optimizer_bytes = run.optimizer_bytes;
  options->softmax_fp32 = run.softmax_fp32;
  options->dropout = run.dropout ? 0.1 : 0.0;
  options->deterministic = run.deterministic;
  options->flash_attention_bshd = run.batch_first;
  options->moe_grouped = run.moe_grouped;
  options->moe_pad = run.moe_pad;
  if (run.group > 0) options->interleave_group = run.group;
  if (run.deferred > 0) options->deferred_embedding_wgrad = run.deferred;
  options->reuse_fp32_params = run.reuse_fp32;
  options->optimizer_swapped = run.swapped;
  options->attention_offloaded = run.offloaded;
  options->read_after_first_iteration = run.first_iteration;
  options->recompute_modules = run.modules;
  options->vocabulary_unit = run.vocabulary_unit;
}

inline Job JobOf(const MeasuredRun& run) {
  Job job;
  job.name = run.id;
  job.calibration = DefaultCalibration();
  SetModel(run, &job.model);
  job.cluster.device.silicon = run.silicon;
  Training& training = job.training;
  training.sequence = run.sequence;
  training.framework = run.framework;
  training.release = run.release;
  training.attention = run.fused_attention ? AttentionKernel::kFlash : AttentionKernel::kUnfused;
  training.loss = run.fused_loss ? LossKernel::kFused : LossKernel::kUnfused;
  if (run.framework == Framework::kTorchtitan) {
    training.precision.weights = DType::kFp32;
    training.precision.master.reset();
  } else {
    SetOptions(run, &training.options);
  }
  return job;
}

inline Layout LayoutOf(const MeasuredRun& run) {
  Layout layout;
  layout.tp = run.tp;
  layout.sp = run.sp;
  layout.cp = run.cp;
  layout.cp_kind = run.all_to_all ? CpKind::kAllToAll : CpKind::kRing;
  layout.pp = run.pp;
  layout.vpp = run.vpp;
  layout.ep = run.ep;
  layout.etp = run.etp;
  layout.dp = run.dp;
  layout.zero = run.zero;
  layout.micro_batch = run.micro_batch;
  layout.micro_batches = run.micro_batches;
  return layout;
}

inline std::vector<StageBytes> PriceRun(const MeasuredRun& run) {
  const Job job = JobOf(run);
  const int parts = run.pp * run.vpp;
  std::vector<int> counts = run.chunk_layers;
  if (counts.empty()) counts.assign(static_cast<std::size_t>(parts), run.layers / parts);
  const Recompute mode = run.full        ? Recompute::kFull
                         : run.selective ? Recompute::kSelective
                                         : Recompute::kOff;
  const auto mode_of = [&](int, int in_chunk) {
    return in_chunk < run.block ? Recompute::kFull : mode;
  };
  return PriceStages(job, LayoutOf(run), ChunksOf(job, counts, run.pp, mode_of), mode);
}

}  // namespace restow::plan::testing
