#include "plan/pipeline/stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace restow::plan {
namespace {

Job JobWithLayers(int layers) {
  Job job;
  job.model.stack.kinds.resize(2);
  job.model.stack.order.assign(static_cast<std::size_t>(layers), 1);
  job.model.stack.order[0] = 0;
  return job;
}

TEST(Stages, LayersThatDivideAreSpreadEvenly) {
  EXPECT_EQ(LayersPerVirtualStage(JobWithLayers(8), 4, 1), (std::vector<int>{2, 2, 2, 2}));
}

TEST(Stages, TheRestGoesToTheMiddleFirstAndToTheHeadLast) {
  EXPECT_EQ(LayersPerVirtualStage(JobWithLayers(9), 4, 1), (std::vector<int>{2, 3, 2, 2}));
  EXPECT_EQ(LayersPerVirtualStage(JobWithLayers(11), 4, 1), (std::vector<int>{3, 3, 3, 2}));
  EXPECT_EQ(LayersPerVirtualStage(JobWithLayers(3), 2, 1), (std::vector<int>{2, 1}));
}

TEST(Stages, EveryLayerIsPlacedOnceForEverySplit) {
  for (int layers = 1; layers <= 40; ++layers) {
    const Job job = JobWithLayers(layers);
    for (int parts = 1; parts <= layers; ++parts) {
      const std::vector<int> counts = LayersPerVirtualStage(job, parts, 1);
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), layers);
      EXPECT_GE(*std::min_element(counts.begin(), counts.end()), 1);
    }
  }
}

TEST(Stages, OptionsStateOtherSplits) {
  Job job = JobWithLayers(10);
  job.training.options.first_last_layers = {2, 2};
  EXPECT_EQ(LayersPerVirtualStage(job, 4, 1), (std::vector<int>{2, 3, 3, 2}));
  job.training.options.chunk_layers = {4, 3, 2, 1};
  EXPECT_EQ(LayersPerVirtualStage(job, 4, 1), (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(LayersPerVirtualStage(job, 2, 1), (std::vector<int>{5, 5}));
  Job counted = JobWithLayers(10);
  counted.training.options.embedding_and_loss_count_as_layers = true;
  EXPECT_EQ(LayersPerVirtualStage(counted, 4, 1), (std::vector<int>{2, 3, 3, 2}));
}

TEST(Stages, ChunksOfAStageAreEveryPpthVirtualStage) {
  const Job job = JobWithLayers(8);
  const KindTable kinds(job.model);
  RecomputePlan plan;
  plan.mode = Recompute::kFull;
  const StageSplit split = SplitStages(job, kinds, 2, 2, plan);
  // Virtual stages 0..3 hold layers 01 23 45 67; stage 0 runs 0 and 2, stage 1 runs 1 and 3.
  ASSERT_EQ(split.stages(), 2);
  ASSERT_EQ(split.chunks[0][0].runs.size(), 2u);
  EXPECT_EQ(split.chunks[0][0].runs[0], (LayerRun{0, Recompute::kFull, 1}));
  EXPECT_EQ(split.chunks[0][0].runs[1], (LayerRun{1, Recompute::kFull, 1}));
  EXPECT_TRUE(split.chunks[0][0].embedding);
  EXPECT_FALSE(split.chunks[0][1].embedding);
  EXPECT_TRUE(split.chunks[1][1].head);
  EXPECT_FALSE(split.chunks[1][0].head);
}

TEST(Stages, TowerLayersComeFirstOnTheFirstStage) {
  Job job = JobWithLayers(4);
  Tower tower;
  tower.stack.kinds.resize(1);
  tower.stack.order = {0, 0, 0};
  job.model.towers.push_back(tower);
  const KindTable kinds(job.model);
  const StageSplit split = SplitStages(job, kinds, 2, 1, {});
  EXPECT_EQ(split.chunks[0][0].runs[0], (LayerRun{2, Recompute::kOff, 3}));
  EXPECT_EQ(split.chunks[0][0].layers(), 5);
  EXPECT_EQ(split.chunks[1][0].layers(), 2);
}

TEST(Stages, ThePerLayerPlanIsKeptLayerByLayer) {
  const Job job = JobWithLayers(4);
  const KindTable kinds(job.model);
  RecomputePlan plan;
  plan.layers = {Recompute::kFull, Recompute::kFull, Recompute::kOff, Recompute::kOff};
  const StageSplit split = SplitStages(job, kinds, 2, 1, plan);
  EXPECT_EQ(split.chunks[0][0].runs[1].mode, Recompute::kFull);
  EXPECT_EQ(split.chunks[1][0].runs[0], (LayerRun{1, Recompute::kOff, 2}));
}

}  // namespace
}  // namespace restow::plan
