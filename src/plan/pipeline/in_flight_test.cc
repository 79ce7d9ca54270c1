#include "plan/pipeline/in_flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace restow::plan {
namespace {

std::string Draw(const std::vector<Event>& events) {
  std::string text;
  for (const Event& e : events) {
    if (!text.empty()) text += ' ';
    text += (e.forward ? 'F' : 'B') + std::to_string(e.micro_batch);
    if (e.chunk > 0) text += std::string(static_cast<std::size_t>(e.chunk), '\'');
  }
  return text;
}

// The largest moment over every event of the schedule, one after another.
Bytes Walk(const PipelineShape& shape, int stage, const std::vector<ChunkBytes>& chunks) {
  std::int64_t alive = 0, peak = 0;
  for (const Event& e : StageEvents(shape, stage)) {
    const ChunkBytes& c = chunks[static_cast<std::size_t>(e.chunk)];
    if (e.forward) alive += c.saved.value();
    peak = std::max(peak, alive + (e.forward ? c.forward_extra : c.backward_extra).value());
    if (!e.forward) alive -= c.saved.value();
  }
  EXPECT_EQ(alive, 0) << "every forward has its backward";
  return Bytes(peak);
}

std::vector<ChunkBytes> RandomChunks(std::mt19937& random, int vpp) {
  std::uniform_int_distribution<std::int64_t> saved(0, 40), extra(0, 120);
  std::vector<ChunkBytes> chunks;
  for (int c = 0; c < vpp; ++c) {
    chunks.push_back({Bytes(saved(random)), Bytes(extra(random)), Bytes(extra(random))});
  }
  return chunks;
}

void ExpectEqualsWalk(const PipelineShape& shape, std::mt19937& random) {
  for (int stage = 0; stage < shape.pp; ++stage) {
    const std::vector<Moment> moments = PeakMoments(shape, stage);
    for (int draw = 0; draw < 4; ++draw) {
      const std::vector<ChunkBytes> chunks = RandomChunks(random, shape.vpp);
      ASSERT_EQ(PeakInFlight(moments, chunks).bytes, Walk(shape, stage, chunks))
          << "pp " << shape.pp << " vpp " << shape.vpp << " m " << shape.micro_batches << " group "
          << shape.group << " stage " << stage;
    }
  }
}

TEST(StageEvents, OneForwardOneBackwardOfTheFirstOfThreeStages) {
  EXPECT_EQ(Draw(StageEvents({Schedule::k1F1B, 3, 1, 4, 0}, 0)), "F0 F1 F2 B0 F3 B1 B2 B3");
}

TEST(StageEvents, OneForwardOneBackwardOfTheLastStageAlternates) {
  EXPECT_EQ(Draw(StageEvents({Schedule::k1F1B, 3, 1, 3, 0}, 2)), "F0 B0 F1 B1 F2 B2");
}

TEST(StageEvents, InterleavedWarmUpGoesThroughGroupsChunkByChunk) {
  // Two stages, two chunks, four micro-batches: stage 1 warms up with 2·0 + 1·2 chunk-forwards.
  EXPECT_EQ(Draw(StageEvents({Schedule::kInterleaved, 2, 2, 4, 0}, 1)),
            "F0 F1 F0' B0' F1' B1' F2 B0 F3 B1 F2' B2' F3' B3' B2 B3");
}

TEST(StageEvents, TheLastGroupIsShorterWhereTheGroupDoesNotDivide) {
  EXPECT_EQ(Draw(StageEvents({Schedule::kInterleaved, 2, 2, 3, 0}, 1)),
            "F0 F1 F0' B0' F1' B1' F2 B0 F2' B1 B2' B2");
}

TEST(StageEvents, GpipeRunsAllForwardsThenAllBackwards) {
  EXPECT_EQ(Draw(StageEvents({Schedule::kGpipe, 4, 1, 3, 0}, 1)), "F0 F1 F2 B0 B1 B2");
}

TEST(PeakMoments, OneForwardOneBackwardHoldsTheStagesBehindIt) {
  // min(m, p - r) micro-batches are alive on stage r of p (memory-model.md section 9).
  for (int stage = 0; stage < 4; ++stage) {
    for (const int m : {1, 2, 3, 4, 100000}) {
      const auto peak = PeakInFlight(PeakMoments({Schedule::k1F1B, 4, 1, m, 0}, stage),
                                     {{Bytes(1000), Bytes(3), Bytes(5)}});
      EXPECT_EQ(peak.bytes.value(), 1000 * std::min(m, 4 - stage) + 5);
      EXPECT_FALSE(peak.moment.forward);
    }
  }
}

TEST(PeakMoments, InterleavedHoldsItsWarmUpAndOneMore) {
  // min(m v, 2(p - r - 1) + (v - 1) G + 1) chunk-forwards: 2·3 + 1·4 + 1 = 11 on the first of four.
  const std::vector<ChunkBytes> chunks(2, {Bytes(1), Bytes(0), Bytes(0)});
  const int expected[] = {11, 9, 7, 5};
  for (int stage = 0; stage < 4; ++stage) {
    const PipelineShape shape{Schedule::kInterleaved, 4, 2, 64, 0};
    EXPECT_EQ(PeakInFlight(PeakMoments(shape, stage), chunks).bytes.value(), expected[stage]);
  }
}

TEST(PeakMoments, EqualAWalkOverEveryEvent) {
  std::mt19937 random(7);
  for (const int pp : {1, 2, 3, 4, 8}) {
    for (int vpp = 1; vpp <= 4; ++vpp) {
      for (const int m : {1, 2, 3, 5, 7, 8, 9, 12, 16, 17, 24, 31, 33, 48, 61, 64}) {
        ExpectEqualsWalk({Schedule::kInterleaved, pp, vpp, m, 0}, random);
        ExpectEqualsWalk({Schedule::kInterleaved, pp, vpp, m, pp + 1}, random);
        ExpectEqualsWalk({Schedule::kInterleaved, pp, vpp, m, 2 * pp + 3}, random);
        ExpectEqualsWalk({Schedule::kGpipe, pp, vpp, m, 0}, random);
        ExpectEqualsWalk({Schedule::k1F1B, pp, vpp, m, 0}, random);
      }
    }
  }
}

TEST(PeakMoments, AreFewHoweverManyMicroBatchesThereAre) {
  const PipelineShape shape{Schedule::kInterleaved, 16, 4, 100000, 0};
  EXPECT_LE(PeakMoments(shape, 0).size(), 64u);
  EXPECT_EQ(PeakMoments({Schedule::kGpipe, 16, 1, 100000, 0}, 3).size(), 2u);
  EXPECT_EQ(PeakMoments({Schedule::k1F1B, 16, 1, 100000, 0}, 3).size(), 2u);
}

TEST(PeakInFlight, TiesKeepTheFirstMoment) {
  const auto peak = PeakInFlight(PeakMoments({Schedule::k1F1B, 2, 1, 4, 0}, 0),
                                 {{Bytes(10), Bytes(1), Bytes(1)}});
  EXPECT_TRUE(peak.moment.forward);
  EXPECT_THAT(peak.moment.alive, ::testing::ElementsAre(2));
}

// What a table is keyed by must stand for every shape that shares the key, on every stage.
TEST(WithoutRepetitions, KeepsTheLargestSumOfEveryStage) {
  const std::vector<ChunkBytes> sizes = {{Bytes(7), Bytes(3), Bytes(5)},
                                         {Bytes(11), Bytes(2), Bytes(1)},
                                         {Bytes(4), Bytes(9), Bytes(6)}};
  int clipped = 0;
  for (const int group : {0, 3, 5}) {
    for (int pp = 2; pp <= 8; ++pp) {
      for (int vpp = 1; vpp <= 3; ++vpp) {
        for (int m = 1; m <= 64; ++m) {
          PipelineShape shape;
          shape.schedule = vpp > 1 ? Schedule::kInterleaved : Schedule::k1F1B;
          shape.pp = pp;
          shape.vpp = vpp;
          shape.micro_batches = m;
          shape.group = group;
          const PipelineShape key = WithoutRepetitions(shape);
          if (key == shape) continue;
          ++clipped;
          const std::vector<ChunkBytes> chunks(sizes.begin(), sizes.begin() + vpp);
          for (int stage = 0; stage < pp; ++stage) {
            ASSERT_EQ(PeakInFlight(PeakMoments(key, stage), chunks).bytes,
                      PeakInFlight(PeakMoments(shape, stage), chunks).bytes)
                << "pp " << pp << " vpp " << vpp << " m " << m << " group " << group;
          }
        }
      }
    }
  }
  EXPECT_GT(clipped, 500);
}

}  // namespace
}  // namespace restow::plan
