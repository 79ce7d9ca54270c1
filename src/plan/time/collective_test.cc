#include "plan/time/collective.h"

#include <gtest/gtest.h>

#include <cmath>

namespace restow::plan {
namespace {

// Nodes of 8 at 100 GB/s, 10 GB/s per device between them; latencies of 1 ms and 0.1 ms per hop
// inside, 2 ms and 0.5 ms beyond.
Machine::Constants TwoLevels() {
  Machine::Constants k;
  k.links = {{8, 100e9, 1e-3, 1e-4}, {1024, 10e9, 2e-3, 5e-4}};
  return k;
}

RankGroup Ranks(int degree, int stride) { return {{GroupAxis{degree, stride}, GroupAxis{}}}; }

TEST(Gather, InsideANodeMovesAllButItsOwnPart) {
  // 800 MB · 7/8 / 100 GB/s = 7 ms, start 1 ms, seven more members 0.7 ms.
  EXPECT_DOUBLE_EQ(GatherSeconds(TwoLevels(), 800e6, Ranks(8, 1)), 8.7e-3);
}

TEST(Gather, OfOneRankIsFree) { EXPECT_EQ(GatherSeconds(TwoLevels(), 800e6, Ranks(1, 1)), 0.0); }

TEST(Gather, AcrossNodesHasThePortOfEveryMemberInANode) {
  // 16 ranks that fill two nodes bring 8 ports: 80 GB/s. Two ranks, one in each, have one.
  EXPECT_DOUBLE_EQ(PathOf(TwoLevels(), Ranks(16, 1)).rate, 80e9);
  EXPECT_DOUBLE_EQ(PathOf(TwoLevels(), Ranks(2, 8)).rate, 10e9);
  EXPECT_DOUBLE_EQ(PathOf(TwoLevels(), Ranks(8, 4)).rate, 20e9);
}

TEST(Gather, AcrossNodesStartsOnceAndHopsByMemberAndNode) {
  // 16 ranks in two nodes: 14 hops inside, one between: 2 ms + 1.4 ms + 0.5 ms.
  EXPECT_NEAR(PathOf(TwoLevels(), Ranks(16, 1)).fixed, 3.9e-3, 1e-15);
}

TEST(Gather, IsLimitedByEveryLevelItCrosses) {
  Machine::Constants k = TwoLevels();
  k.links[1].size = 64;
  k.links.push_back({4096, 1e9, 3e-3, 1e-3});
  // 256 ranks: 8 ports a node give 80 GB/s, 64 ports a pod 64 GB/s.
  EXPECT_DOUBLE_EQ(PathOf(k, Ranks(256, 1)).rate, 64e9);
  EXPECT_DOUBLE_EQ(PathOf(k, Ranks(64, 1)).rate, 80e9);
  // One rank per pod has one port.
  EXPECT_DOUBLE_EQ(PathOf(k, Ranks(4, 64)).rate, 1e9);
}

TEST(Gather, OnAFullMeshUsesTheLinksOfItsMembers) {
  Machine::Constants k = TwoLevels();
  k.mesh = true;
  EXPECT_DOUBLE_EQ(PathOf(k, Ranks(2, 1)).rate, 100e9 / 7);
  EXPECT_DOUBLE_EQ(PathOf(k, Ranks(8, 1)).rate, 100e9);
}

TEST(AllToAll, SendsOneCopyOfATokenToANode) {
  const Machine::Constants k = TwoLevels();
  // 32 ranks on four nodes, 8 GB: plain, 3/4 of it crosses at 10 GB/s.
  const double plain = AllToAllSeconds(k, 8e9, Ranks(32, 1), 1) - 2e-3;
  EXPECT_NEAR(plain, 0.6, 1e-12);
  // With 8 destinations per token, 3·(1 - (3/4)^8) = 2.70 nodes of the other three see it: 2.70
  // copies of 1 GB instead of 6.
  const double once = AllToAllSeconds(k, 8e9, Ranks(32, 1), 8) - 2e-3;
  EXPECT_NEAR(once, 3 * (1 - std::pow(0.75, 8)) * 1e9 / 10e9, 1e-12);
}

TEST(AllToAll, InsideANodeRunsAtItsRate) {
  EXPECT_NEAR(AllToAllSeconds(TwoLevels(), 8e9, Ranks(8, 1), 8), 0.07 + 1e-3, 1e-12);
}

TEST(RankGroups, FollowTheStatedOrder) {
  MicroShape shape;
  shape.tp = 2;
  shape.cp = 4;
  shape.dp = 3;
  shape.pp = 5;
  EXPECT_EQ(TensorGroup(shape).axes[0].stride, 1);
  EXPECT_EQ(ContextGroup(shape).axes[0].stride, 2);
  EXPECT_EQ(DataGroup(shape).axes[1].stride, 8);
  EXPECT_EQ(PipelineGroup(shape).axes[0].stride, 24);
  EXPECT_EQ(DataGroup(shape).size(), 12);
  shape.order = {Axis::kPp, Axis::kDp, Axis::kTp, Axis::kEp, Axis::kCp};
  EXPECT_EQ(PipelineGroup(shape).axes[0].stride, 1);
  EXPECT_EQ(TensorGroup(shape).axes[0].stride, 15);
  EXPECT_EQ(ContextGroup(shape).axes[0].stride, 30);
}

TEST(RankGroups, OfExpertsStandInsideTheDenseGrid) {
  MicroShape shape;
  shape.tp = 4;
  shape.dp = 16;
  shape.ep = 8;
  // etp 1: eight experts groups are eight neighbours; edp = 16·4/8 = 8 ranks, 8 apart.
  EXPECT_EQ(ExpertGroup(shape).axes[0].stride, 1);
  EXPECT_EQ(ExpertDataGroup(shape).axes[0].degree, 8);
  EXPECT_EQ(ExpertDataGroup(shape).axes[0].stride, 8);
  shape.etp = 4;
  EXPECT_EQ(ExpertGroup(shape).axes[0].stride, 4);
  EXPECT_EQ(ExpertDataGroup(shape).axes[0].degree, 2);
}

TEST(RankGroups, SplitIntoAShardInsideAndReplicasOutside) {
  const SplitGroups split = SplitInner({{GroupAxis{2, 1}, GroupAxis{32, 2}}}, 8);
  EXPECT_EQ(split.shard.size(), 8);
  EXPECT_EQ(MembersInside(split.shard, 8), 8);
  EXPECT_EQ(split.replicas.size(), 8);
  EXPECT_EQ(MembersInside(split.replicas, 8), 1);
}

TEST(Neighbours, CrossTheSlowestLinkBetweenStages) {
  const Machine::Constants k = TwoLevels();
  EXPECT_DOUBLE_EQ(NeighbourPath(k, Ranks(2, 4)).rate, 100e9);
  EXPECT_DOUBLE_EQ(NeighbourPath(k, Ranks(4, 4)).rate, 10e9);
}

}  // namespace
}  // namespace restow::plan
