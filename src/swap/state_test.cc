#include "restow/swap/state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "restow/base/error.h"

namespace restow::swap {
namespace {

// The rows of docs/engine.md with `cells` cells, as "a | b | c".
std::vector<std::string> DocumentRows(int cells) {
  std::ifstream file(std::string(RESTOW_SOURCE_DIR) + "/docs/engine.md");
  std::vector<std::string> rows;
  bool states = false;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("## ", 0) == 0) states = line == "## Units and their states";
    if (!states || line.rfind("| ", 0) != 0) continue;
    if (std::count(line.begin(), line.end(), '|') != cells + 1) continue;
    rows.push_back(line.substr(2, line.size() - 4));
  }
  return rows;
}

TEST(State, TheTableIsTheOneTheDocumentShows) {
  std::vector<std::string> rules{"from | change | to | when"};
  for (const Rule& rule : Rules()) {
    rules.push_back(std::string(Name(rule.from)) + " | " + Name(rule.change) + " | " +
                    Name(rule.to) + " | " + rule.sentence);
  }
  EXPECT_EQ(DocumentRows(4), rules);
  std::vector<std::string> states{"state | meaning"};
  for (int s = 0; s < kStates; ++s) {
    const auto state = static_cast<State>(s);
    states.push_back(std::string(Name(state)) + " | " + Sentence(state));
  }
  EXPECT_EQ(DocumentRows(2), states);
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
