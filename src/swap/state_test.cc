#include "restow/swap/state.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "restow/base/error.h"

namespace restow::swap {
namespace {

TEST(State, TheTableIsTheOneTheDocumentShows) {
  std::string table;
  for (const Rule& rule : Rules()) {
    table +=
        std::string(Name(rule.from)) + " -- " + Name(rule.change) + " --> " + Name(rule.to) + "\n";
  }
  EXPECT_EQ(table,
            "Resident -- offload --> Offloading\n"
            "Offloading -- give up --> OnHost\n"
            "Offloading -- cancel --> Resident\n"
            "Resident -- give up --> OnHost\n"
            "OnHost -- prefetch --> Prefetching\n"
            "Prefetching -- use --> Resident\n"
            "Prefetching -- take back --> OnHost\n"
            "OnHost -- adopt --> Resident\n"
            "OnHost -- spill --> Spilling\n"
            "Spilling -- spilled --> OnFile\n"
            "Spilling -- cancel --> OnHost\n"
            "Spilling -- spill failed --> OnHost\n"
            "OnHost -- shed --> OnFile\n"
            "OnFile -- fetch --> Fetching\n"
            "Fetching -- fetched --> OnHost\n"
            "Fetching -- fetch failed --> OnFile\n"
            "OnFile -- adopt --> Resident\n"
            "Resident -- spill --> Writing\n"
            "Writing -- spilled --> OnFile\n"
            "Writing -- cancel --> Resident\n"
            "Writing -- spill failed --> Resident\n"
            "OnFile -- prefetch --> Reading\n"
            "Reading -- fetched --> Resident\n"
            "Reading -- fetch failed --> OnFile\n"
            "Resident -- shed --> OnFile\n"
            "OnHost -- lose --> Lost\n");
}

TEST(State, EveryPairIsARuleOrRefusedByName) {
  std::set<std::pair<int, int>> legal;
  for (const Rule& rule : Rules()) {
    const bool fresh =
        legal.insert({static_cast<int>(rule.from), static_cast<int>(rule.change)}).second;
    EXPECT_TRUE(fresh) << "two rules for " << Name(rule.from) << ", " << Name(rule.change);
    EXPECT_EQ(Apply(rule.from, rule.change), rule.to);
    EXPECT_GT(std::string(rule.sentence).size(), 10u);
  }
  for (int s = 0; s < kStates; ++s) {
    for (int c = 0; c < kChanges; ++c) {
      const auto state = static_cast<State>(s);
      const auto change = static_cast<Change>(c);
      if (legal.count({s, c}) != 0) continue;
      EXPECT_FALSE(Next(state, change).has_value());
      try {
        Apply(state, change);
        ADD_FAILURE() << Name(state) << " accepted " << Name(change);
      } catch (const Error& error) {
        EXPECT_NE(error.message().find(Name(state)), std::string::npos);
        EXPECT_NE(error.message().find(Name(change)), std::string::npos);
      }
    }
  }
}

TEST(State, EveryStateIsReachedAndAllButLostAreLeft) {
  std::set<State> reached{State::kResident}, left;
  for (const Rule& rule : Rules()) {
    reached.insert(rule.to);
    left.insert(rule.from);
  }
  EXPECT_EQ(reached.size(), static_cast<std::size_t>(kStates));
  EXPECT_EQ(left.size(), static_cast<std::size_t>(kStates) - 1);
  EXPECT_EQ(left.count(State::kLost), 0u);
}

TEST(State, BytesAreAlwaysSomewhereASecondMoveCanFindThem) {
  // From every state but Lost some chain of changes leads back to Resident.
  for (int s = 0; s < kStates; ++s) {
    if (static_cast<State>(s) == State::kLost) continue;
    std::set<State> seen{static_cast<State>(s)};
    for (int round = 0; round < kStates; ++round) {
      for (const Rule& rule : Rules()) {
        if (seen.count(rule.from) != 0) seen.insert(rule.to);
      }
    }
    EXPECT_EQ(seen.count(State::kResident), 1u) << Name(static_cast<State>(s));
  }
}

}  // namespace
}  // namespace restow::swap
