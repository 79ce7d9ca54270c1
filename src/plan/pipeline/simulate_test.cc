#include "plan/pipeline/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace restow::plan {
namespace {

PipelineWork Even(int stages, int chunks, double forward, double backward) {
  const auto s = static_cast<std::size_t>(stages), c = static_cast<std::size_t>(chunks);
  return {std::vector(s, std::vector(c, Seconds(forward))),
          std::vector(s, std::vector(c, Seconds(backward)))};
}

// m·max S + (sum S - max S)/v, with S the work of a stage for one micro-batch.
double ClosedForm(const PipelineWork& work, int micro_batches) {
  double sum = 0, slowest = 0;
  for (std::size_t r = 0; r < work.forward.size(); ++r) {
    double stage = 0;
    for (const Seconds s : work.forward[r]) stage += s.value();
    for (const Seconds s : work.backward[r]) stage += s.value();
    sum += stage;
    slowest = std::max(slowest, stage);
  }
  return micro_batches * slowest + (sum - slowest) / work.chunks();
}

// Stages within 10 % of one another, the last up to 40 % of a stage heavier (its head); backward
// twice the forward.
PipelineWork Uneven(std::mt19937& random, int stages, int chunks, bool equal_chunks) {
  std::uniform_real_distribution<double> spread(0.9, 1.1), head(0.0, 0.4);
  PipelineWork work = Even(stages, chunks, 0, 0);
  for (auto& row : work.forward) {
    const double stage = spread(random);
    for (Seconds& s : row) s = Seconds((equal_chunks ? stage : spread(random)) / chunks);
  }
  work.forward.back().back() += Seconds(head(random));
  for (std::size_t r = 0; r < work.forward.size(); ++r) {
    for (std::size_t c = 0; c < work.forward[r].size(); ++c) {
      work.backward[r][c] = 2 * work.forward[r][c];
    }
  }
  return work;
}

// Relative errors of the closed form, sorted.
std::vector<double> Errors(Schedule schedule, int chunks, bool equal_chunks) {
  std::mt19937 random(1);
  std::vector<double> errors;
  const int stage_counts[] = {2, 4, 8, 12}, groups[] = {1, 2, 4, 8};
  for (int trial = 0; trial < 200; ++trial) {
    const int stages = stage_counts[random() % 4];
    const int micro_batches = stages * groups[random() % 4];
    const PipelineWork work = Uneven(random, stages, chunks, equal_chunks);
    const double simulated = SimulatePipeline(schedule, work, micro_batches).value();
    errors.push_back(ClosedForm(work, micro_batches) / simulated - 1);
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

double Percentile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

TEST(SimulatePipeline, TwoStagesOfOneFollowTheDrawing) {
  // Forward 1 s, backward 2 s, two stages, three micro-batches, 1F1B:
  //   stage 0: F0 F1 .. B0 B0 F2 B1 B1 . B2 B2      F0 0-1, F1 1-2, B0 4-6, F2 6-7, B1 7-9
  //   stage 1: .  F0 B0 B0 F1 B1 B1 F2 B2 B2        F0 1-2, B0 2-4, F1 4-5, B1 5-7, F2 7-8, B2 8-10
  //   stage 0 ends with B2 10-12.
  EXPECT_DOUBLE_EQ(SimulatePipeline(Schedule::k1F1B, Even(2, 1, 1, 2), 3).value(), 12.0);
}

TEST(SimulatePipeline, EqualStagesTakeMicroBatchesPlusStagesLessOneSlots) {
  for (const Schedule schedule : {Schedule::kGpipe, Schedule::k1F1B}) {
    // (m + p - 1)(f + b) = (6 + 4 - 1) * 3.
    EXPECT_DOUBLE_EQ(SimulatePipeline(schedule, Even(4, 1, 1, 2), 6).value(), 27.0);
  }
}

TEST(SimulatePipeline, InterleavingDividesTheBubbleByItsChunks) {
  // 4 stages, 2 chunks of half a stage each: 8·3 + 3·3/2.
  EXPECT_DOUBLE_EQ(SimulatePipeline(Schedule::kInterleaved, Even(4, 2, 0.5, 1.0), 8).value(), 28.5);
}

TEST(ClosedForm, IsExactForEqualStages) {
  for (const int stages : {2, 3, 4, 8}) {
    for (const int groups : {1, 3}) {
      const PipelineWork plain = Even(stages, 1, 0.7, 1.3);
      for (const Schedule schedule : {Schedule::kGpipe, Schedule::k1F1B}) {
        EXPECT_NEAR(ClosedForm(plain, groups * stages),
                    SimulatePipeline(schedule, plain, groups * stages).value(), 1e-9);
      }
      for (const int chunks : {2, 4}) {
        const PipelineWork work = Even(stages, chunks, 0.7, 1.3);
        EXPECT_NEAR(ClosedForm(work, groups * stages),
                    SimulatePipeline(Schedule::kInterleaved, work, groups * stages).value(), 1e-9);
      }
    }
  }
}

TEST(ClosedForm, IsExactForGpipeWhereBackwardFollowsForward) {
  // Both directions are paced by one stage: sum f + (m-1) max f, and the same for b.
  const std::vector<double> errors = Errors(Schedule::kGpipe, 1, true);
  EXPECT_NEAR(errors.front(), 0, 1e-9);
  EXPECT_NEAR(errors.back(), 0, 1e-9);
}

TEST(ClosedForm, IsWithinTwoPercentOf1F1BOverUnevenStages) {
  const std::vector<double> errors = Errors(Schedule::k1F1B, 1, true);
  EXPECT_NEAR(Percentile(errors, 0.5), 0, 0.002);
  EXPECT_LT(Percentile(errors, 0.95), 0.02);
  EXPECT_GT(Percentile(errors, 0.05), -0.005);
}

TEST(ClosedForm, IsWithinFivePercentOfInterleavingOverUnevenChunks) {
  for (const int chunks : {2, 4}) {
    const std::vector<double> errors = Errors(Schedule::kInterleaved, chunks, false);
    EXPECT_NEAR(Percentile(errors, 0.5), 0, 0.02);
    EXPECT_GT(Percentile(errors, 0.05), -0.06);
    EXPECT_LT(Percentile(errors, 0.95), 0.02);
    std::printf("interleaved, %d chunks: median %+.2f %%, p5 %+.2f %%, p95 %+.2f %%\n", chunks,
                100 * Percentile(errors, 0.5), 100 * Percentile(errors, 0.05),
                100 * Percentile(errors, 0.95));
  }
}

}  // namespace
}  // namespace restow::plan
