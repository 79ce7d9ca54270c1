// Published runs, translated by hand from the shared data/measured-runs.csv (ids are its rows'),
// priced and held against the executable statement of the research note (prototypes/time_model.py,
// `price ID`): the two are written independently and agree within 1 %. The measured seconds stand
// beside them and are printed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "plan/time/test_jobs.h"

namespace restow::plan {
namespace {

using testing::ClusterFor;
using testing::DenseKind;
using testing::PriceTable;

// One row. Unstated: off, 1, or the usual.
struct Row {
  const char* id;
  const char* device;
  Framework framework = Framework::kMegatron;
  const char* release = "";
  double outer = 0;  // GB/s of the network per device; 0: the device's
  // Model.
  int layers = 0, hidden = 0, width = 0, heads = 0, kv = 0, head_dim = 0, vocab = 0;
  bool gated = true, tied = false;
  int experts = 0, per_token = 0, expert_width = 0, shared_width = 0, first_dense = 0, every = 1;
  int q_rank = -1;  // >= 0: latent attention of DeepSeek-V3's widths
  int window = 0;
  bool alternate = false;  // every second layer has the window
  bool biased = false;
  int mtp = 0;
  // Training and layout.
  int devices = 0, sequence = 0, batch = 0, micro = 1;
  int tp = 1;
  bool sp = false;
  int cp = 1;
  bool ulysses = false;
  int pp = 1, vpp = 1, dp = 1, ep = 1, etp = 1, zero = 0, zero_span = 0;
  DType compute = DType::kBf16;
  const char* fp8 = nullptr;
  const char* launch = nullptr;
  bool ep_overlap = false;
  const char* dispatcher = nullptr;
  int tp_overlap = -1;  // -1: unstated
  bool async_tp = false, unfused = false, fused_loss = false, eager = false;
  bool separate_kernel = false, tuned = false;
  Recompute recompute = Recompute::kOff;
  std::vector<std::string> modules{};
  bool every_other = false;  // full recompute of every second layer
  int block = 0;             // full recompute of so many layers of each stage
  double predicted = 0, measured = 0;
};

Model ModelOf(const Row& r) {
  LayerKind dense = DenseKind(r.hidden, r.width, r.heads, r.kv, r.head_dim, r.gated);
  if (r.q_rank >= 0) dense.attention.latent = LatentAttention{r.q_rank, 512, 128, 64, 128};
  LayerKind other = dense;
  if (r.experts > 0) {
    other.feed_forward.experts = Experts{r.experts, r.per_token, r.expert_width, r.shared_width};
    other.feed_forward.experts->expert_bias = r.biased;
  }
  LayerKind local = other;
  local.attention.window = r.window;
  if (r.window > 0 && !r.alternate) other.attention.window = r.window;
  Model model;
  model.stack.kinds = {dense, other, local};
  for (int i = 0; i < r.layers; ++i) {
    const bool sparse = r.experts > 0 && i >= r.first_dense && (i - r.first_dense) % r.every == r.every - 1;
    const bool windowed = r.window > 0 && r.alternate && i % 2 == 0;
    model.stack.order.push_back(windowed ? 2 : sparse || r.experts == 0 ? 1 : 0);
  }
  model.vocab = r.vocab;
  model.tied = r.tied;
  model.mtp_layers = r.mtp;
  model.mtp_kind = 1;
  return model;
}

Job JobOf(const Row& r) {
  Job job;
  job.model = ModelOf(r);
  job.cluster = ClusterFor(r.device, r.devices, r.outer);
  job.calibration = DefaultCalibration();
  Training& t = job.training;
  t.sequence = r.sequence;
  t.global_batch = r.batch;
  t.precision.compute = r.compute;
  t.framework = r.framework;
  t.release = r.release;
  t.attention = r.unfused ? AttentionKernel::kUnfused : AttentionKernel::kFlash;
  t.loss = r.fused_loss ? LossKernel::kFused : LossKernel::kUnfused;
  FrameworkOptions& o = t.options;
  if (r.fp8 != nullptr) o.fp8_recipe = r.fp8;
  if (r.launch != nullptr) o.moe_launch = r.launch;
  if (r.dispatcher != nullptr) o.dispatcher = r.dispatcher;
  if (r.tp_overlap >= 0) o.tp_overlap = r.tp_overlap == 1;
  if (r.ep_overlap) o.ep_overlap = true;
  if (r.async_tp) o.async_tp = true;
  if (r.eager) o.compile = false;
  if (r.separate_kernel) o.grad_accumulate = "fp32-separate-kernel";
  if (r.tuned) o.placement = "numa-tuned";
  o.recompute_modules = r.modules;
  return job;
}

Layout LayoutOf(const Row& r) {
  Layout l;
  l.tp = r.tp;
  l.sp = r.sp;
  l.cp = r.cp;
  l.cp_kind = r.ulysses ? CpKind::kAllToAll : CpKind::kRing;
  l.pp = r.pp;
  l.vpp = r.vpp;
  l.schedule = r.vpp > 1 ? Schedule::kInterleaved : Schedule::k1F1B;
  l.ep = r.ep;
  l.etp = r.etp;
  l.dp = r.dp;
  l.zero = r.zero;
  l.zero_span = r.zero_span;
  l.micro_batch = r.micro;
  l.micro_batches = std::max(1, r.batch / (r.micro * r.dp));
  return l;
}

// Layers of each stage: even; where L+2 divides, embedding and head count as layers (BLOOM); else
// the last stage takes the short share.
int StageLayers(const Row& r, int stage) {
  if (r.layers % r.pp == 0) return r.layers / r.pp;
  const bool edge = stage == 0 || stage == r.pp - 1;
  if ((r.layers + 2) % r.pp == 0) return (r.layers + 2) / r.pp - (edge ? 1 : 0);
  return stage == r.pp - 1 ? r.layers / r.pp : r.layers / r.pp + 1;
}

StageSplit SplitOf(const Row& r, const Model& model) {
  StageSplit split;
  std::size_t layer = 0;
  for (int stage = 0; stage < r.pp; ++stage) {
    Chunk chunk;
    for (int i = 0; i < StageLayers(r, stage); ++i, ++layer) {
      const int kind = model.stack.order[std::min(layer, model.stack.order.size() - 1)];
      Recompute mode = r.recompute;
      if (r.every_other) mode = i % 2 == 0 ? Recompute::kFull : Recompute::kOff;
      if (r.block > 0) mode = i < r.block ? Recompute::kFull : Recompute::kOff;
      chunk.runs.push_back({kind, mode, 1});
    }
    chunk.embedding = stage == 0;
    chunk.head = stage == r.pp - 1;
    split.chunks.push_back({chunk});
  }
  return split;
}

StageTraffic TrafficOf(const Row& r, const Model& model) {
  StageTraffic traffic;
  for (const int kind : model.stack.order) {
    const LayerParameters n = CountParameters(model.stack.kinds[static_cast<std::size_t>(kind)]);
    traffic.dense += static_cast<double>(n.attention + n.feed_forward) / r.tp / r.pp;
    traffic.expert += static_cast<double>(n.experts) / (r.ep * r.etp) / r.pp;
  }
  traffic.table = static_cast<double>(r.vocab) * r.hidden / r.tp * (r.pp == 1 && !r.tied ? 2 : 1);
  traffic.layers_per_stage = static_cast<double>(r.layers) / r.pp;
  return traffic;
}

StepSeconds Price(const Row& r) {
  const Job job = JobOf(r);
  const Machine machine(job);
  const KindTable kinds(job.model);
  const Layout layout = LayoutOf(r);
  const StageSplit split = SplitOf(r, job.model);
  const LayerSecondsTable table = PriceTable(machine, kinds, ShapeOf(layout));
  const EdgeSeconds edges = PriceEdges(machine, ShapeOf(layout));
  const StageSeconds stages = AssembleStages(machine, kinds, split, table, edges);
  return AssembleStep(machine, layout, kinds, split, table, edges, stages,
                      TrafficOf(r, job.model));
}

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      {.id = "simumax-001", .device = "b200", .release = "megatron-lm 2026-04, TE 2.11", .layers = 12, .hidden = 8192, .width = 28672, .heads = 64, .kv = 8, .head_dim = 128, .vocab = 128256, .devices = 8, .sequence = 4096, .batch = 16, .micro = 1, .pp = 2, .dp = 4, .zero = 1, .fused_loss = true, .predicted = 0.8700, .measured = 0.8430},
      {.id = "simumax-010", .device = "b200", .release = "megatron-lm 2026-04, TE 2.11", .layers = 12, .hidden = 8192, .width = 28672, .heads = 64, .kv = 8, .head_dim = 128, .vocab = 128256, .devices = 8, .sequence = 4096, .batch = 32, .micro = 1, .tp = 2, .sp = true, .dp = 4, .zero = 1, .fused_loss = true, .predicted = 1.3966, .measured = 1.3870},
      {.id = "simumax-042", .device = "b200", .release = "megatron-lm 2026-04, TE 2.11", .layers = 12, .hidden = 8192, .width = 28672, .heads = 64, .kv = 8, .head_dim = 128, .vocab = 128256, .devices = 8, .sequence = 131072, .batch = 4, .micro = 1, .cp = 8, .ulysses = true, .dp = 1, .zero = 1, .fused_loss = true, .predicted = 11.2243, .measured = 11.3019},
      {.id = "bloom-056", .device = "a100", .release = "megatron-deepspeed", .outer = 6.25, .layers = 72, .hidden = 14336, .width = 57344, .heads = 32, .kv = 32, .head_dim = 448, .vocab = 250000, .gated = false, .tied = true, .devices = 384, .sequence = 2048, .batch = 2048, .micro = 4, .tp = 8, .pp = 6, .dp = 8, .zero = 1, .unfused = true, .recompute = Recompute::kFull, .predicted = 120.9705, .measured = 124.0100},
      {.id = "bloom-100", .device = "a100", .release = "megatron-deepspeed", .outer = 6.25, .layers = 78, .hidden = 13824, .width = 55296, .heads = 128, .kv = 128, .head_dim = 108, .vocab = 250000, .gated = false, .tied = true, .devices = 384, .sequence = 2048, .batch = 2048, .micro = 4, .tp = 8, .pp = 6, .dp = 8, .zero = 1, .unfused = true, .tuned = true, .recompute = Recompute::kFull, .predicted = 163.9232, .measured = 156.8400},
      {.id = "bloom-118", .device = "a100", .release = "megatron-deepspeed", .outer = 6.25, .layers = 106, .hidden = 12288, .width = 49152, .heads = 64, .kv = 64, .head_dim = 192, .vocab = 250000, .gated = false, .tied = true, .devices = 384, .sequence = 2048, .batch = 2048, .micro = 2, .tp = 4, .pp = 12, .dp = 8, .zero = 1, .unfused = true, .separate_kernel = true, .tuned = true, .recompute = Recompute::kFull, .predicted = 116.9554, .measured = 116.5400},
      {.id = "bloom-138", .device = "a100", .release = "megatron-deepspeed", .outer = 6.25, .layers = 70, .hidden = 14336, .width = 57344, .heads = 112, .kv = 112, .head_dim = 128, .vocab = 250880, .gated = false, .tied = true, .devices = 384, .sequence = 2048, .batch = 2048, .micro = 2, .tp = 4, .pp = 12, .dp = 8, .zero = 1, .unfused = true, .separate_kernel = true, .tuned = true, .recompute = Recompute::kFull, .predicted = 103.3885, .measured = 104.6951},
      {.id = "mpt-001", .device = "h100", .framework = Framework::kTorch, .release = "llm-foundry 2023", .layers = 80, .hidden = 8192, .width = 32768, .heads = 64, .kv = 64, .head_dim = 128, .vocab = 50368, .gated = false, .tied = true, .devices = 512, .sequence = 2048, .batch = 4096, .micro = 8, .dp = 512, .zero = 3, .recompute = Recompute::kFull, .predicted = 16.2709, .measured = 16.2701},
      {.id = "mpt-024", .device = "h100", .framework = Framework::kTorch, .release = "llm-foundry 2023", .layers = 48, .hidden = 7168, .width = 28672, .heads = 56, .kv = 56, .head_dim = 128, .vocab = 50368, .gated = false, .tied = true, .devices = 16, .sequence = 2048, .batch = 480, .micro = 10, .dp = 16, .zero = 3, .recompute = Recompute::kFull, .predicted = 27.2255, .measured = 27.1498},
      {.id = "bridge-26.06-012", .device = "gb300", .release = "megatron-bridge 26.06", .layers = 36, .hidden = 2880, .width = 2880, .heads = 64, .kv = 8, .head_dim = 64, .vocab = 201088, .experts = 128, .per_token = 4, .expert_width = 2880, .window = 128, .alternate = true, .biased = true, .devices = 64, .sequence = 4096, .batch = 1280, .micro = 4, .dp = 64, .ep = 16, .zero = 1, .compute = DType::kFp8, .fp8 = "mx", .launch = "full", .fused_loss = true, .predicted = 2.8613, .measured = 2.4700},
      {.id = "bridge-26.06-018", .device = "h100", .release = "megatron-bridge 26.06", .layers = 48, .hidden = 2048, .width = 6144, .heads = 32, .kv = 4, .head_dim = 128, .vocab = 151936, .experts = 128, .per_token = 8, .expert_width = 768, .devices = 16, .sequence = 4096, .batch = 1024, .micro = 1, .dp = 16, .ep = 16, .zero = 1, .compute = DType::kFp8, .fp8 = "current-scaling", .launch = "partial", .fused_loss = true, .predicted = 25.6310, .measured = 29.7013},
      {.id = "bridge-26.04.01-023", .device = "h100", .release = "megatron-bridge 26.04.01", .layers = 36, .hidden = 2880, .width = 2880, .heads = 64, .kv = 8, .head_dim = 64, .vocab = 201088, .experts = 128, .per_token = 4, .expert_width = 2880, .window = 128, .alternate = true, .biased = true, .devices = 64, .sequence = 4096, .batch = 1280, .micro = 1, .pp = 4, .dp = 16, .ep = 8, .zero = 1, .dispatcher = "all-to-all", .fused_loss = true, .recompute = Recompute::kSelective, .modules = {"layernorm", "moe_act"}, .predicted = 14.8561, .measured = 14.0659},
      {.id = "bridge-25.11-001", .device = "gb300", .release = "megatron-bridge 25.11", .layers = 32, .hidden = 4096, .width = 14336, .heads = 32, .kv = 8, .head_dim = 128, .vocab = 128256, .devices = 8, .sequence = 8192, .batch = 128, .micro = 2, .dp = 8, .zero = 1, .compute = DType::kFp8, .fp8 = "current-scaling", .fused_loss = true, .predicted = 3.6856, .measured = 3.4900},
      {.id = "skill-001", .device = "h100", .release = "megatron-bridge skills", .layers = 27, .hidden = 2048, .width = 11264, .heads = 16, .kv = 16, .head_dim = 128, .vocab = 163840, .experts = 64, .per_token = 6, .expert_width = 1408, .shared_width = 2816, .first_dense = 1, .q_rank = 0, .devices = 8, .sequence = 4096, .batch = 4, .micro = 1, .tp = 2, .sp = true, .dp = 4, .ep = 8, .zero = 1, .tp_overlap = 1, .fused_loss = true, .predicted = 0.4444, .measured = 0.4572},
      {.id = "skill-006", .device = "h100", .release = "megatron-bridge skills", .layers = 27, .hidden = 2048, .width = 11264, .heads = 16, .kv = 16, .head_dim = 128, .vocab = 163840, .experts = 64, .per_token = 6, .expert_width = 1408, .shared_width = 2816, .first_dense = 1, .q_rank = 0, .devices = 8, .sequence = 4096, .batch = 4, .micro = 1, .tp = 2, .sp = true, .dp = 4, .ep = 8, .zero = 1, .tp_overlap = 1, .fused_loss = true, .recompute = Recompute::kSelective, .modules = {"layernorm", "moe_act"}, .predicted = 0.5092, .measured = 0.5065},
      {.id = "skill-014", .device = "h100", .release = "megatron-bridge skills", .layers = 80, .hidden = 8192, .width = 28672, .heads = 64, .kv = 8, .head_dim = 128, .vocab = 128256, .devices = 32, .sequence = 4096, .batch = 32, .micro = 1, .tp = 4, .sp = true, .pp = 4, .vpp = 5, .dp = 2, .zero = 1, .compute = DType::kFp8, .fp8 = "current-scaling", .tp_overlap = 1, .fused_loss = true, .recompute = Recompute::kSelective, .modules = {"core_attn"}, .predicted = 2.5263, .measured = 2.5200},
      {.id = "dgxc-022", .device = "h100", .release = "nemo 24.09", .layers = 96, .hidden = 18432, .width = 73728, .heads = 96, .kv = 8, .head_dim = 192, .vocab = 256000, .gated = false, .devices = 2048, .sequence = 4096, .batch = 512, .micro = 1, .tp = 8, .sp = true, .pp = 8, .vpp = 12, .dp = 32, .zero = 1, .compute = DType::kFp8, .fp8 = "delayed", .tp_overlap = 1, .fused_loss = true, .predicted = 3.6718, .measured = 3.4900},
      {.id = "dgxc25-001", .device = "gb200", .release = "nemo 25.04", .layers = 64, .hidden = 6144, .width = 32768, .heads = 48, .kv = 8, .head_dim = 128, .vocab = 131072, .experts = 8, .per_token = 2, .expert_width = 32768, .devices = 128, .sequence = 8192, .batch = 256, .micro = 1, .tp = 4, .sp = true, .dp = 32, .ep = 8, .etp = 4, .zero = 1, .tp_overlap = 1, .fused_loss = true, .predicted = 8.3223, .measured = 7.3250},
      {.id = "dgxc25-008", .device = "h100", .release = "nemo 25.04", .layers = 64, .hidden = 6144, .width = 32768, .heads = 48, .kv = 8, .head_dim = 128, .vocab = 131072, .experts = 8, .per_token = 2, .expert_width = 32768, .devices = 512, .sequence = 8192, .batch = 1024, .micro = 1, .tp = 4, .sp = true, .cp = 2, .pp = 8, .vpp = 8, .dp = 8, .ep = 8, .zero = 1, .compute = DType::kFp8, .fp8 = "delayed", .tp_overlap = 1, .fused_loss = true, .predicted = 14.2883, .measured = 13.4330},
      {.id = "dgxc25-025", .device = "gb200", .release = "nemo 25.04", .layers = 96, .hidden = 18432, .width = 73728, .heads = 96, .kv = 8, .head_dim = 192, .vocab = 256000, .gated = false, .devices = 512, .sequence = 4096, .batch = 128, .micro = 1, .tp = 8, .sp = true, .pp = 4, .vpp = 12, .dp = 16, .zero = 1, .tp_overlap = 0, .fused_loss = true, .predicted = 2.3330, .measured = 2.2290},
      {.id = "ascend-readme-002", .device = "910b", .framework = Framework::kMindSpeed, .release = "mindspeed-llm 2024-09", .layers = 32, .hidden = 4096, .width = 11008, .heads = 32, .kv = 32, .head_dim = 128, .vocab = 50257, .devices = 8, .sequence = 2048, .batch = 64, .micro = 8, .tp = 8, .sp = true, .dp = 1, .tp_overlap = 1, .predicted = 5.3492, .measured = 4.9305},
      {.id = "ascend-readme-056", .device = "910b", .framework = Framework::kMindSpeed, .release = "mindspeed-llm 2024-09", .layers = 56, .hidden = 6144, .width = 16384, .heads = 48, .kv = 8, .head_dim = 128, .vocab = 32000, .experts = 8, .per_token = 2, .expert_width = 16384, .devices = 64, .sequence = 32768, .batch = 16, .micro = 1, .tp = 8, .sp = true, .cp = 2, .pp = 4, .vpp = 7, .dp = 1, .etp = 8, .zero = 1, .tp_overlap = 1, .predicted = 29.9949, .measured = 34.2762},
      {.id = "titan-003", .device = "h100-500w", .framework = Framework::kTorchtitan, .release = "torchtitan", .layers = 32, .hidden = 4096, .width = 14336, .heads = 32, .kv = 8, .head_dim = 128, .vocab = 128256, .devices = 8, .sequence = 8192, .batch = 16, .micro = 2, .dp = 8, .zero = 3, .compute = DType::kFp8, .fp8 = "delayed", .recompute = Recompute::kSelective, .modules = {"per-op"}, .predicted = 1.9892, .measured = 1.9203},
      {.id = "titan-023", .device = "h100-500w", .framework = Framework::kTorchtitan, .release = "torchtitan", .layers = 80, .hidden = 8192, .width = 28672, .heads = 64, .kv = 8, .head_dim = 128, .vocab = 128256, .devices = 256, .sequence = 8192, .batch = 512, .micro = 16, .tp = 8, .sp = true, .dp = 32, .zero = 3, .compute = DType::kFp8, .fp8 = "rowwise", .recompute = Recompute::kFull, .predicted = 30.2456, .measured = 27.3249},
      {.id = "titan-025", .device = "h100-500w", .framework = Framework::kTorchtitan, .release = "torchtitan", .layers = 32, .hidden = 4096, .width = 14336, .heads = 32, .kv = 8, .head_dim = 128, .vocab = 128256, .devices = 64, .sequence = 8192, .batch = 96, .micro = 12, .tp = 8, .sp = true, .dp = 8, .zero = 3, .recompute = Recompute::kSelective, .modules = {"per-op"}, .predicted = 2.6964, .measured = 2.8068},
      {.id = "internlm-008", .device = "a100", .framework = Framework::kTorch, .release = "internlm 2023", .outer = 6.25, .layers = 32, .hidden = 4096, .width = 11008, .heads = 32, .kv = 32, .head_dim = 128, .vocab = 103168, .devices = 1024, .sequence = 2048, .batch = 8192, .micro = 2, .dp = 1024, .zero = 1, .predicted = 7.0591, .measured = 7.2144},
      {.id = "internlm-022", .device = "a100", .framework = Framework::kTorch, .release = "internlm 2023", .outer = 6.25, .layers = 32, .hidden = 4096, .width = 11008, .heads = 32, .kv = 32, .head_dim = 128, .vocab = 103168, .devices = 256, .sequence = 2048, .batch = 2048, .micro = 4, .tp = 2, .dp = 128, .zero = 1, .predicted = 5.1154, .measured = 5.2954},
      {.id = "fms-008", .device = "h100", .framework = Framework::kTorch, .release = "fms-fsdp", .outer = 12.5, .layers = 40, .hidden = 5120, .width = 13824, .heads = 40, .kv = 40, .head_dim = 128, .vocab = 32000, .devices = 96, .sequence = 4096, .batch = 192, .micro = 2, .dp = 96, .zero = 3, .recompute = Recompute::kSelective, .modules = {"per-op"}, .predicted = 2.0583, .measured = 2.1558},
      {.id = "sc21t2-001", .device = "a100", .release = "deepspeed", .layers = 96, .hidden = 12288, .width = 49152, .heads = 96, .kv = 96, .head_dim = 128, .vocab = 51200, .gated = false, .tied = true, .devices = 384, .sequence = 2048, .batch = 1536, .micro = 4, .dp = 384, .zero = 3, .unfused = true, .recompute = Recompute::kFull, .predicted = 91.2670, .measured = 81.5786},
      {.id = "sc21t2-008", .device = "a100", .release = "megatron-lm 2021", .layers = 96, .hidden = 12288, .width = 49152, .heads = 96, .kv = 96, .head_dim = 128, .vocab = 51200, .gated = false, .tied = true, .devices = 768, .sequence = 2048, .batch = 1536, .micro = 1, .tp = 8, .pp = 12, .dp = 8, .unfused = true, .recompute = Recompute::kFull, .predicted = 39.8029, .measured = 39.4205},
      {.id = "korth-003", .device = "a100", .release = "megatron-lm 2022", .layers = 96, .hidden = 12288, .width = 49152, .heads = 96, .kv = 96, .head_dim = 128, .vocab = 51200, .gated = false, .tied = true, .devices = 64, .sequence = 2048, .batch = 64, .micro = 1, .tp = 8, .pp = 8, .vpp = 3, .dp = 1, .unfused = true, .recompute = Recompute::kFull, .predicted = 18.5675, .measured = 18.1300},
  };
  return rows;
}

TEST(MeasuredRuns, ArePricedAsTheResearchNoteStates) {
  for (const Row& row : Rows()) {
    const double step = Price(row).total.value();
    std::printf("%-18s priced %9.4f s, stated %9.4f s (%+.2f %%), measured %9.4f s (%+.1f %%)\n",
                row.id, step, row.predicted, 100 * (step / row.predicted - 1), row.measured,
                100 * (step / row.measured - 1));
    EXPECT_NEAR(step / row.predicted, 1.0, 0.01) << row.id;
  }
}

}  // namespace
}  // namespace restow::plan
