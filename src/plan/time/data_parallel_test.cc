#include <gtest/gtest.h>

#include "plan/time/machine.h"
#include "plan/time/test_jobs.h"

namespace restow::plan {
namespace {

using testing::Priced;
using testing::SmallJob;

Layout DataOnly(int dp, int zero, int micro_batches = 8) {
  Layout layout;
  layout.dp = dp;
  layout.zero = zero;
  layout.micro_batches = micro_batches;
  return layout;
}

ExposedHidden Data(const Priced& p) {
  return PriceDataParallel(p.machine, p.layout, p.traffic, p.stages);
}
double All(const ExposedHidden& x) { return (x.exposed + x.hidden).value(); }

TEST(DataParallel, UnshardedReductionIsAnAllReduceOfTheGradients) {
  const Priced p(SmallJob(), DataOnly(8, 0));
  // Two gathers of parameters · 4 bytes over 8 devices at 450 GB/s · 0.75, each with 55 us and
  // seven hops of 3.3 us.
  const double bytes = (p.traffic.dense + p.traffic.table) * 4;
  const double one = bytes * 7 / 8 / (450e9 * 0.75) + 5.5e-5 + 7 * 3.3e-6;
  EXPECT_NEAR(All(Data(p)), 2 * one, 1e-12);
  EXPECT_GT(Data(p).exposed.value(), 0);
}

TEST(DataParallel, ZeroOneGathersWeightsInsteadOfGradients) {
  const Priced p(SmallJob(), DataOnly(8, 1));
  const double parameters = p.traffic.dense + p.traffic.table;
  const double fixed = 5.5e-5 + 7 * 3.3e-6;
  EXPECT_NEAR(All(Data(p)), parameters * (4 + 2) * 7 / 8 / (450e9 * 0.75) + 2 * fixed, 1e-12);
}

TEST(DataParallel, ReducesOncePerStepUpToZeroOneAndPerMicroBatchUnderTwoAndThree) {
  for (const int zero : {0, 1}) {
    const Priced few(SmallJob("h100", 64), DataOnly(64, zero, 4));
    const Priced many(SmallJob("h100", 64), DataOnly(64, zero, 8));
    EXPECT_EQ(All(Data(few)), All(Data(many))) << zero;
  }
  // ZeRO-2 scatters gradients every micro-batch and gathers weights once: twice the micro-batches
  // add the scatters again, not the gather.
  const Priced once(SmallJob("h100", 64), DataOnly(64, 2, 1));
  const Priced four(SmallJob("h100", 64), DataOnly(64, 2, 4));
  const Priced eight(SmallJob("h100", 64), DataOnly(64, 2, 8));
  const double scatters = (All(Data(eight)) - All(Data(four))) / 4;
  EXPECT_NEAR(All(Data(eight)) - All(Data(once)), 7 * scatters, 1e-9);
  EXPECT_NEAR(All(Data(once)), All(Data(Priced(SmallJob("h100", 64), DataOnly(64, 1, 1)))), 1e-12);
  const Priced few(SmallJob("h100", 64), DataOnly(64, 3, 4));
  const Priced many(SmallJob("h100", 64), DataOnly(64, 3, 8));
  EXPECT_NEAR(All(Data(many)), 2 * All(Data(few)), 1e-9);
  EXPECT_GT(All(Data(few)), 4 * 2 * few.traffic.dense * 2 * 63 / 64 / (400e9 * 0.8));
}

TEST(DataParallel, OfOneReplicaIsFree) {
  for (const int zero : {0, 1, 2, 3}) {
    EXPECT_EQ(All(Data(Priced(SmallJob(), DataOnly(1, zero)))), 0.0);
  }
}

TEST(DataParallel, HybridShardsGatherInsideTheirSpanAndReduceAcrossOncePerStep) {
  Layout layout = DataOnly(64, 3, 4);
  const Priced whole(SmallJob("h100", 64), layout);
  layout.zero_span = 8;
  const Priced hybrid(SmallJob("h100", 64), layout);
  EXPECT_LT(All(Data(hybrid)), All(Data(whole)));
  // Inside a node: 2 gathers of 2 bytes and a scatter of 4 per parameter, 4 micro-batches, 32
  // layers; then an all-reduce of an eighth of the gradients over 8 nodes, one port each.
  const double fixed = 5.5e-5 + 7 * 3.3e-6;
  const double inside = 4 * (hybrid.traffic.dense * 8 * 7 / 8 / (450e9 * 0.75) + 32 * 3 * fixed);
  const double across =
      2 * (hybrid.traffic.dense * 4 / 8 * 7 / 8 / (50e9 * 0.8) + 5.5e-5 + 7 * 1.5e-5);
  EXPECT_NEAR(All(Data(hybrid)), inside + across, 1e-9);
}

TEST(DataParallel, UnderAHalvedNetworkTakesLonger) {
  Job slow = SmallJob("h100", 64);
  slow.cluster.levels[1].bandwidth = BytesPerSecond(25e9);
  const Priced a(SmallJob("h100", 64), DataOnly(64, 1));
  const Priced b(std::move(slow), DataOnly(64, 1));
  EXPECT_GT(All(Data(b)), 1.9 * All(Data(a)));
}

TEST(DataParallel, SixteenBitGradientsHalveTheReduction) {
  Job job = SmallJob();
  job.training.precision.gradients = DType::kBf16;
  const Priced half(std::move(job), DataOnly(8, 0));
  const Priced full(SmallJob(), DataOnly(8, 0));
  EXPECT_NEAR(All(Data(half)) / All(Data(full)), 0.5, 0.02);
}

TEST(DataParallel, GathersFrozenWeightsUnderZeroThreeButReducesNothingForThem) {
  Priced p(SmallJob(), DataOnly(8, 3, 1));
  const double trained = All(Data(p));
  p.traffic.frozen_dense = p.traffic.dense;
  p.traffic.dense = 0;
  EXPECT_GT(All(Data(p)), 0.4 * trained);
  EXPECT_LT(All(Data(p)), 0.7 * trained);
}

TEST(DataParallel, ExpertsAreReducedOverTheirOwnGroup) {
  Job job = SmallJob("h100", 64);
  job.model.stack.kinds[0].feed_forward.experts = Experts{64, 8, 1408, 0};
  Layout layout = DataOnly(64, 1);
  layout.ep = 64;
  const Priced alone(job, layout);
  layout.ep = 8;
  const Priced shared(job, layout);
  // With ep = dp every expert has one owner: only dense gradients travel.
  StageTraffic dense_only = alone.traffic;
  dense_only.expert = 0;
  EXPECT_EQ(All(Data(alone)),
            All(PriceDataParallel(alone.machine, alone.layout, dense_only, alone.stages)));
  EXPECT_GT(All(Data(shared)), All(Data(alone)));
}

TEST(Optimizer, MovesThirtyFourBytesOfAShardAndSixOfEveryGradient) {
  const Priced p(SmallJob(), DataOnly(8, 1));
  const double parameters = p.traffic.dense + p.traffic.table;
  EXPECT_NEAR(PriceOptimizer(p.machine, p.layout, p.traffic).value(),
              parameters * (34.0 / 8 + 6) / (3350e9 * 0.75), 1e-12);
}

TEST(Optimizer, ShardingNeverCostsMore) {
  double before = 1e9;
  for (const int zero : {0, 1, 2, 3}) {
    const Priced p(SmallJob(), DataOnly(8, zero));
    const double now = PriceOptimizer(p.machine, p.layout, p.traffic).value();
    EXPECT_LE(now, before);
    before = now;
  }
}

}  // namespace
}  // namespace restow::plan
