#include "emulator/time_line.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace restow::emulator {
namespace {

TEST(TimeLineTest, SecondsAndTicksAreInverse) {
  EXPECT_EQ(ToTicks(1.5e-6), 1'500'000);
  EXPECT_EQ(ToSeconds(1'500'000), 1.5e-6);
}

TEST(TimeLineTest, ATransferIsBytesOverRate) {
  // 20 MB at 20 GB/s: 1 ms.
  EXPECT_EQ(TransferTicks(20'000'000, 20e9), kTicksPerSecond / 1000);
  // 1 byte at 3 bytes a second: a third of a second, rounded up to whole picoseconds.
  EXPECT_EQ(TransferTicks(1, 3), 333'333'333'334);
}

TEST(ResourceTest, WorkFollowsWorkThatIsInItsWay) {
  Resource resource;
  EXPECT_EQ(resource.Book(0, 10, 0).begin, 0);
  EXPECT_EQ(resource.Book(5, 10, 0).begin, 10);
  EXPECT_EQ(resource.Book(3, 1, 0).begin, 20);
}

TEST(ResourceTest, WorkReadyEarlierTakesTheGapBeforeWorkIssuedEarlier) {
  Resource resource;
  EXPECT_EQ(resource.Book(100, 10, 0).begin, 100);
  EXPECT_EQ(resource.Book(0, 100, 0).begin, 0);  // [0, 100) is just long enough
  EXPECT_EQ(resource.Book(0, 1, 0).begin, 110);  // no gap is left
}

TEST(ResourceTest, WorkOfNoLengthTakesNoPlace) {
  Resource resource;
  resource.Book(0, 10, 0);
  EXPECT_EQ(resource.Book(5, 0, 0).end, 5);
}

// Brute force: try every tick from `ready` on until the span is free.
TEST(ResourceTest, BookingsEqualATickByTickSearch) {
  std::mt19937 draws(1);
  for (int round = 0; round < 200; ++round) {
    Resource resource;
    std::vector<bool> busy(2000, false);
    for (int i = 0; i < 20; ++i) {
      const auto ready = static_cast<Ticks>(draws() % 60);
      const auto length = static_cast<Ticks>(1 + draws() % 9);
      Ticks expected = ready;
      const auto free = [&](Ticks begin) {
        for (Ticks t = begin; t < begin + length; ++t) {
          if (busy[static_cast<std::size_t>(t)]) return false;
        }
        return true;
      };
      while (!free(expected)) ++expected;
      for (Ticks t = expected; t < expected + length; ++t) busy[static_cast<std::size_t>(t)] = true;
      ASSERT_EQ(resource.Book(ready, length, 0).begin, expected) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace restow::emulator
