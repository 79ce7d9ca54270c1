// Published runs, translated by hand from the shared data/measured-runs.csv (ids are its rows'),
// priced and held against the executable statement of the research note (prototypes/time_model.py,
// `price ID`): the two are written independently and agree within 1 %. The measured seconds stand
// beside them and are printed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "plan/time/measured_rows.h"
#include "plan/time/test_jobs.h"

namespace restow::plan {
namespace {

using testing::ClusterFor;
using testing::DenseKind;
using testing::PriceTable;
using testing::Row;
using testing::Rows;

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
    const bool sparse =
        r.experts > 0 && i >= r.first_dense && (i - r.first_dense) % r.every == r.every - 1;
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
  job.calibration = testing::ResearchCalibration();
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
  return AssembleStep(machine, layout, kinds, split, table, edges, stages, TrafficOf(r, job.model));
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
