#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "restow/base/error.h"
#include "restow/io/read.h"

namespace restow {
namespace {

using ::testing::ElementsAre;

TEST(CandidateName, IsARankOrWhatRunsTodayOrDimensions) {
  const CandidateName rank = ReadCandidateName("3");
  EXPECT_EQ(rank.rank, 3);
  EXPECT_EQ(rank.text, "rank 3");
  const CandidateName current = ReadCandidateName("Current");
  EXPECT_TRUE(current.current);
  EXPECT_EQ(current.rank, 0);
  const CandidateName stated = ReadCandidateName(" tp=8  pp=4,8 ");
  EXPECT_THAT(stated.dimensions, ElementsAre("tp=8", "pp=4,8"));
  EXPECT_FALSE(stated.current);
}

TEST(CandidateName, RefusesWhatIsNoneOfThem) {
  for (const char* text : {"0", "-1", "best", "", "1.5"}) {
    try {
      ReadCandidateName(text);
      ADD_FAILURE() << text << " was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage) << text;
    }
  }
}

TEST(MergeDimensions, ReplacesWhatIsStatedAgainAndKeepsTheRest) {
  EXPECT_THAT(MergeDimensions({"tp=2", "PP =4", "sp=true"}, {"pp=8", "cp=2"}),
              ElementsAre("tp=2", "sp=true", "pp=8", "cp=2"));
  EXPECT_THAT(MergeDimensions({"tp=2"}, {}), ElementsAre("tp=2"));
}

// A dimension stated twice in one breath stays for the reader to refuse.
TEST(MergeDimensions, KeepsBothOfAContradiction) {
  EXPECT_THAT(MergeDimensions({}, {"tp=2", "tp=4"}), ElementsAre("tp=2", "tp=4"));
}

}  // namespace
}  // namespace restow
