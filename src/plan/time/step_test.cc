#include "plan/time/step.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "plan/time/machine.h"
#include "plan/time/test_jobs.h"

namespace restow::plan {
namespace {

using testing::Priced;
using testing::SmallJob;
using testing::TermOf;

Layout LayoutFor(int tp, int pp, int dp, int micro_batches) {
  Layout layout;
  layout.tp = tp;
  layout.sp = tp > 1;
  layout.pp = pp;
  layout.dp = dp;
  layout.micro_batches = micro_batches;
  return layout;
}

double Sum(const TimeTerms& terms) {
  double sum = 0;
  for (const Seconds term : terms) sum += term.value();
  return sum;
}

std::vector<Layout> RandomLayouts(int count) {
  std::mt19937 random(7);
  const auto pick = [&](std::initializer_list<int> from) {
    return *(from.begin() + random() % from.size());
  };
  std::vector<Layout> layouts;
  for (int i = 0; i < count; ++i) {
    Layout l =
        LayoutFor(pick({1, 2, 4, 8}), pick({1, 2, 4, 8}), pick({1, 2, 8, 16}), pick({8, 16, 64}));
    l.cp = pick({1, 2});
    l.vpp = l.pp > 1 ? pick({1, 2, 4}) : 1;
    l.schedule = l.vpp > 1 ? Schedule::kInterleaved : Schedule::k1F1B;
    l.micro_batch = pick({1, 2});
    layouts.push_back(l);
  }
  return layouts;
}

TEST(Step, TermsSumToTheTotalAndTheTotalIsTheSearchs) {
  const Recompute modes[] = {Recompute::kOff, Recompute::kSelective, Recompute::kFull};
  int i = 0;
  for (Layout layout : RandomLayouts(60)) {
    layout.zero = i % 4;
    const Priced p(SmallJob("h100", 2048), layout, modes[i++ % 3]);
    const StepSeconds step = p.Step();
    EXPECT_NEAR(Sum(step.terms) / step.total.value(), 1.0, 1e-9);
    EXPECT_EQ(step.total, StepTotal(p.machine, p.layout, p.stages, p.traffic));
    for (const Seconds term : step.terms) EXPECT_GE(term.value(), 0);
    for (const Seconds term : step.hidden) EXPECT_GE(term.value(), -1e-12);
  }
}

TEST(Step, TermsSumForExpertsTowersAndMultiTokenPredictionUnderAReleaseFactor) {
  Job job = SmallJob("b200", 64);
  job.training.release = "megatron-bridge 26.06";
  job.model.stack.kinds.push_back(job.model.stack.kinds[0]);
  job.model.stack.kinds[1].feed_forward.experts = Experts{64, 8, 1408, 2816};
  std::fill(job.model.stack.order.begin() + 1, job.model.stack.order.end(), 1);
  job.model.mtp_layers = 1;
  job.model.mtp_kind = 1;
  Layout layout = LayoutFor(2, 4, 8, 16);
  layout.ep = 8;
  layout.zero = 1;
  const Priced p(std::move(job), layout, Recompute::kFull);
  EXPECT_NEAR(Sum(p.Step().terms) / p.Step().total.value(), 1.0, 1e-9);
  EXPECT_GT(TermOf(p.Step().terms, TimeTerm::kExpertParallel).value(), 0);
}

TEST(Step, LowerBoundHoldsForEveryShardingAndSpan) {
  for (const Layout& layout : RandomLayouts(60)) {
    const Priced p(SmallJob("h100", 2048), layout);
    const Seconds bound = StepLowerBound(p.machine, layout, p.stages, p.traffic);
    EXPECT_GT(bound.value(), 0);
    for (int zero = 0; zero <= 3; ++zero) {
      for (const int span : {0, 1, 2, 8, 32}) {
        Layout other = layout;
        other.zero = zero;
        other.zero_span = span;
        EXPECT_LE(bound, StepTotal(p.machine, other, p.stages, p.traffic));
      }
    }
  }
}

TEST(Step, LowerBoundIsNearWhatSmallTrafficCosts) {
  Layout layout = LayoutFor(8, 1, 2, 32);
  layout.zero = 1;
  const Priced p(SmallJob("h100", 16), layout);
  EXPECT_GT(StepLowerBound(p.machine, layout, p.stages, p.traffic),
            0.95 * StepTotal(p.machine, layout, p.stages, p.traffic));
}

TEST(Step, IsTheSlowestStageTimesTheMicroBatchesAndTheOthersOnce) {
  const Priced p(SmallJob("h100", 8), LayoutFor(1, 4, 1, 16));
  const StepSeconds step = p.Step();
  double sum = 0;
  for (const Seconds s : p.stages.stage) sum += s.value();
  const double slowest = p.stages.stage[static_cast<std::size_t>(p.stages.pace)].value();
  EXPECT_NEAR(TermOf(step.terms, TimeTerm::kBubble).value(), sum - slowest, 1e-12);
  EXPECT_EQ(p.stages.pace, 3);  // the head stands behind the last
}

TEST(Step, SchedulesAreTimedApart) {
  Layout plain = LayoutFor(1, 4, 1, 16);
  Layout interleaved = plain;
  interleaved.schedule = Schedule::kInterleaved;
  interleaved.vpp = 4;
  const Priced a(SmallJob("h100", 8), plain), b(SmallJob("h100", 8), interleaved);
  EXPECT_NEAR(TermOf(b.Step().terms, TimeTerm::kBubble).value(),
              TermOf(a.Step().terms, TimeTerm::kBubble).value() / 4, 1e-9);
  // Four times the hops, 0.15 of the steady ones exposed.
  EXPECT_NE(TermOf(a.Step().terms, TimeTerm::kPipelineP2p),
            TermOf(b.Step().terms, TimeTerm::kPipelineP2p));
}

TEST(Step, HopsBetweenStagesAreNotFree) {
  const Layout layout = LayoutFor(1, 2, 4, 16);
  const Priced p(SmallJob("h100", 8), layout);
  // 4096 · 4096 · 2 bytes at 337.5 GB/s and 55 us, twice for each of 16 + 1 slots.
  EXPECT_NEAR(PriceP2p(p.machine, layout).exposed.value(),
              2 * (4096.0 * 4096 * 2 / 337.5e9 + 5.5e-5) * 17, 1e-12);
}

TEST(Step, WithoutSequenceParallelismEveryRankSendsTheWholeActivation) {
  Layout layout = LayoutFor(8, 2, 1, 16);
  const Priced p(SmallJob("h100", 16), layout);
  const Seconds divided = PriceP2p(p.machine, layout).exposed;
  layout.sp = false;
  EXPECT_GT(PriceP2p(p.machine, layout).exposed, 3 * divided);
}

TEST(Step, UnshardedDataParallelismIsNotFree) {
  Layout layout = LayoutFor(1, 1, 64, 8);
  const Priced p(SmallJob("h100", 64), layout);
  EXPECT_GT(TermOf(p.Step().terms, TimeTerm::kDataParallel).value(), 0.01);
}

TEST(Step, RankOrderDecidesWhatACollectiveCrosses) {
  Layout layout = LayoutFor(8, 1, 8, 8);
  const Priced inner(SmallJob("h100", 64), layout);
  layout.order = {Axis::kDp, Axis::kCp, Axis::kEp, Axis::kTp, Axis::kPp};
  const Priced outer(SmallJob("h100", 64), layout);
  EXPECT_GT(TermOf(outer.Step().terms, TimeTerm::kTensorParallel),
            5 * TermOf(inner.Step().terms, TimeTerm::kTensorParallel));
  EXPECT_LT(TermOf(outer.Step().terms, TimeTerm::kDataParallel),
            TermOf(inner.Step().terms, TimeTerm::kDataParallel));
}

TEST(Step, RecomputeIsPricedOnlyWhereStated) {
  const Layout layout = LayoutFor(1, 1, 8, 8);
  const Priced off(SmallJob(), layout), full(SmallJob(), layout, Recompute::kFull);
  EXPECT_EQ(TermOf(off.Step().terms, TimeTerm::kRecompute).value(), 0);
  // Eight micro-batches of 32 layers run forward again.
  EXPECT_NEAR(TermOf(full.Step().terms, TimeTerm::kRecompute).value(),
              8 * 32 * full.table[0][0].forward_total.value(), 1e-9);
  EXPECT_GT(full.Step().total, 1.25 * off.Step().total);
}

TEST(Step, ManyNodesStraggle) {
  const Layout layout = LayoutFor(8, 1, 8, 8);
  const Priced p(SmallJob("h100", 64), layout);
  const StepSeconds step = p.Step();
  // Eight nodes are three doublings of 0.003.
  const double straggle = TermOf(step.terms, TimeTerm::kStraggle).value();
  EXPECT_NEAR(straggle / (step.total.value() - straggle), 0.009, 1e-12);
}

TEST(Stages, SpreadMultiTokenPredictionEvenly) {
  Job job = SmallJob();
  const Layout layout = LayoutFor(1, 4, 2, 8);
  const Priced without(job, layout);
  job.model.mtp_layers = 1;
  const Priced with(job, layout);
  const LayerSeconds& layer = with.table[0][0];
  const double each =
      (layer.forward_total + layer.backward_total + with.edges.head + with.edges.mtp).value() / 4;
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_NEAR((with.stages.stage[r] - without.stages.stage[r]).value(), each, 1e-12);
  }
}

TEST(Edges, DivideTheHeadByTensorParallelismAndTheEmbeddingByNothing) {
  const Priced p(SmallJob(), LayoutFor(1, 1, 1, 8));
  MicroShape shape;
  shape.tp = 8;
  const EdgeSeconds eight = PriceEdges(p.machine, shape);
  EXPECT_LT(eight.head.value(), p.edges.head.value() / 5);
  EXPECT_EQ(eight.embedding, p.edges.embedding);
}

}  // namespace
}  // namespace restow::plan
