#include "swap/file_tier/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace restow::swap::file_tier {
namespace {

using ::testing::ElementsAre;

std::vector<Range> Take(Space& space, std::uint64_t size) {
  std::vector<Range> ranges;
  EXPECT_TRUE(space.Take(size, ranges));
  return ranges;
}

TEST(Space, GrowsFromTheFront) {
  Space space(100);
  EXPECT_THAT(Take(space, 10), ElementsAre(Range{0, 10}));
  EXPECT_THAT(Take(space, 20), ElementsAre(Range{10, 20}));
  EXPECT_EQ(space.end(), 30);
}

TEST(Space, TakesTheHoleThatFitsBest) {
  Space space(100);
  for (const int size : {30, 5, 10, 5, 20}) Take(space, static_cast<std::uint64_t>(size));
  space.Give({0, 30});
  space.Give({35, 10});
  // Holes of 30 at 0 and of 10 at 35: 8 fit best into the second.
  EXPECT_THAT(Take(space, 8), ElementsAre(Range{35, 8}));
  EXPECT_THAT(Take(space, 30), ElementsAre(Range{0, 30}));
}

TEST(Space, JoinsHolesThatTouch) {
  Space space(100);
  for (int i = 0; i < 4; ++i) Take(space, 10);
  space.Give({0, 10});
  space.Give({20, 10});
  space.Give({10, 10});
  EXPECT_THAT(Take(space, 30), ElementsAre(Range{0, 30}));
}

TEST(Space, CutsWhatFitsNowhereWholeOverTheLargestHolesBeforeItGrows) {
  Space space(100);
  for (const int size : {10, 5, 20, 5, 10}) Take(space, static_cast<std::uint64_t>(size));
  space.Give({0, 10});
  space.Give({15, 20});
  // Holes of 10 at 0 and of 20 at 15, the end at 50: 33 = 20 + 10 + 3 new.
  EXPECT_THAT(Take(space, 33), ElementsAre(Range{15, 20}, Range{0, 10}, Range{50, 3}));
}

TEST(Space, ExtendsAHoleThatTouchesTheEnd) {
  Space space(100);
  Take(space, 10);
  Take(space, 10);
  space.Give({10, 10});
  EXPECT_THAT(Take(space, 25), ElementsAre(Range{10, 25}));
}

TEST(Space, RefusesAboveTheCapAndTakesNothing) {
  Space space(100);
  Take(space, 60);
  std::vector<Range> ranges;
  EXPECT_FALSE(space.Take(41, ranges));
  EXPECT_FALSE(space.Take(~std::uint64_t{0}, ranges));
  EXPECT_TRUE(ranges.empty());
  EXPECT_EQ(space.used(), 60);
  EXPECT_TRUE(space.Take(40, ranges));
}

// Brute force: one owner per unit of the file.
TEST(Space, NeverHandsOutAUnitTwiceAndEndsAtThePeakOfUse) {
  std::mt19937 random(7);
  Space space(400);
  std::vector<int> owner(400, 0);
  std::vector<std::vector<Range>> taken;
  std::uint64_t used = 0, peak = 0;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 2 == 0 && !taken.empty()) {
      std::swap(taken[random() % taken.size()], taken.back());
      for (const Range& range : taken.back()) {
        std::fill_n(owner.begin() + static_cast<std::ptrdiff_t>(range.offset), range.size, 0);
        used -= range.size;
        space.Give(range);
      }
      taken.pop_back();
    } else {
      const std::uint64_t size = 1 + random() % 60;
      std::vector<Range> ranges;
      ASSERT_EQ(space.Take(size, ranges), used + size <= 400);
      std::uint64_t got = 0;
      for (const Range& range : ranges) {
        for (std::uint64_t i = range.offset; i < range.end(); ++i) ASSERT_EQ(owner[i]++, 0);
        got += range.size;
      }
      ASSERT_EQ(got, ranges.empty() ? 0 : size);
      used += got;
      if (!ranges.empty()) taken.push_back(ranges);
    }
    peak = std::max(peak, used);
    ASSERT_EQ(space.used(), used);
    ASSERT_EQ(space.end(), peak);
  }
}

}  // namespace
}  // namespace restow::swap::file_tier
