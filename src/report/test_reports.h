// Small hand-made reports for the tests of this folder.
#pragma once

#include "restow/schema/report.h"

namespace restow::report {

// Four stages, 70 GiB at the worst, of 80 GiB with 4 GiB kept free; terms add up.
inline Candidate MakeCandidate(int rank, double step_s) {
  Candidate c;
  c.rank = rank;
  c.layout.tp = 8;
  c.layout.sp = true;
  c.layout.pp = 4;
  c.layout.dp = 2;
  c.layout.zero = 1;
  c.layout.micro_batches = 256;
  c.recompute.mode = Recompute::kSelective;
  c.capacity = Bytes(80 * kGiB);
  c.limit = Bytes(76 * kGiB);
  c.peak = Bytes(70 * kGiB);
  c.fits = true;
  c.reserved_low = Bytes(71 * kGiB);
  c.reserved_high = Bytes(73 * kGiB);
  c.worst_phase = Phase::kBackward;
  c.memory[static_cast<std::size_t>(MemoryTerm::kWeights)] = Bytes(20 * kGiB);
  c.memory[static_cast<std::size_t>(MemoryTerm::kActivations)] = Bytes(50 * kGiB);
  c.step = Seconds(step_s);
  c.time[static_cast<std::size_t>(TimeTerm::kMatmul)] = Seconds(0.75 * step_s);
  c.time[static_cast<std::size_t>(TimeTerm::kBubble)] = Seconds(0.25 * step_s);
  c.hidden[static_cast<std::size_t>(TimeTerm::kDataParallel)] = Seconds(0.5);
  c.tokens_per_s_per_device = 4321.4;
  c.mfu = 51.26;
  for (int stage = 0; stage < 4; ++stage) {
    c.ranks.push_back({stage, Bytes((stage < 3 ? 70 : 60) * kGiB),
                       stage < 3 ? Phase::kBackward : Phase::kLossBackward});
    c.stage_recompute.push_back({20, 0, 20, 0, 0});
  }
  return c;
}

inline Model MakeModel() {
  Model model;
  model.name = "tiny";
  model.family = "llama";
  LayerKind kind;
  kind.name = "dense";
  kind.hidden = 8;
  kind.attention.heads = 2;
  kind.attention.kv_heads = 1;
  kind.attention.head_dim = 4;
  kind.feed_forward.width = 16;
  model.stack.kinds = {kind};
  model.stack.order = {0, 0};
  model.vocab = 32;
  return model;
}

inline PlanReport MakePlan() {
  PlanReport report;
  report.version = "0.1.0";
  report.job_name = "job";
  report.model = MakeModel();
  report.calibration_id = "constants";
  report.candidates = {10, 4, 5, 1};
  report.refused = {{"heads", 3, {}, {}, "tp 16 does not divide 8 heads", {{"tp", 16}}},
                    {"layers", 2, {}, {}, "pp 3 does not divide 80 layers", {{"pp", 3}}}};
  report.ranked = {MakeCandidate(1, 12.0), MakeCandidate(2, 13.0)};
  report.pareto = {0};
  return report;
}

}  // namespace restow::report
