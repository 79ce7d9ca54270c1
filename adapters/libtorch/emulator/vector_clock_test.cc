#include "emulator/vector_clock.h"

#include <gtest/gtest.h>

namespace restow::emulator {
namespace {

TEST(VectorClockTest, AnActorSeesItsOwnEpochAndNoLaterOne) {
  VectorClock clock;
  const Epoch first = clock.Tick(3);
  EXPECT_EQ(first.count, 1u);
  EXPECT_TRUE(clock.Covers(first));
  EXPECT_FALSE(clock.Covers({3, 2}));
}

TEST(VectorClockTest, NothingIsCoveredByEveryClock) {
  EXPECT_TRUE(VectorClock().Covers({7, 0}));
  EXPECT_FALSE(VectorClock().Covers({7, 1}));
}

TEST(VectorClockTest, JoiningSeesWhatEitherHadSeen) {
  VectorClock a;
  VectorClock b;
  const Epoch of_a = a.Tick(1);
  b.Tick(5);
  const Epoch of_b = b.Tick(5);
  EXPECT_FALSE(b.Covers(of_a));
  b.Join(a);
  EXPECT_TRUE(b.Covers(of_a));
  EXPECT_TRUE(b.Covers(of_b));
  EXPECT_FALSE(a.Covers(of_b));
}

TEST(VectorClockTest, JoiningAnOlderClockTakesNothingAway) {
  VectorClock older;
  older.Tick(2);
  VectorClock clock = older;
  const Epoch later = clock.Tick(2);
  clock.Join(older);
  EXPECT_TRUE(clock.Covers(later));
  EXPECT_EQ(clock.Last(2).count, 2u);
}

}  // namespace
}  // namespace restow::emulator
