// The search: every layout under every allowed recompute plan, bounded where it cannot win.
//
// Work is cut into units (space/enumerate.h) and done in rounds whose sizes do not depend on the
// number of threads. A round prunes against what earlier rounds found and what its own unit found,
// never against a neighbour in flight, so that counts and answers are the same for any number of
// threads.
#pragma once

#include <vector>

#include "plan/price/context.h"
#include "plan/rank/order.h"
#include "plan/space/choices.h"
#include "restow/plan/planner.h"
#include "restow/schema/report.h"

namespace restow::plan {

struct SearchResult {
  CandidateCounts counts;
  std::vector<Refusal>
      refused;  // one per rule in the order of Rules(), then memory; count may be 0
  TopList top;
  ParetoFront front;
  MissList misses;
  bool complete = true;

  explicit SearchResult(int top_size);
};

SearchResult Search(const Context& context, const Choices& choices, const SearchOptions& options);

}  // namespace restow::plan
