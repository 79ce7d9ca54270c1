// Small changes to a candidate that make it fit.
#pragma once

#include <vector>

#include "plan/price/context.h"
#include "plan/space/choices.h"
#include "restow/plan/planner.h"
#include "restow/schema/report.h"

namespace restow::plan {

// Candidates that keep the rules, fit, and differ from `one` in a single dimension (dp and the
// number of micro-batches follow); where none does, in two. Only values that `choices` allows.
// Fastest first, at most `most`.
std::vector<NearestChange> FittingChanges(const Context& context, const Choices& choices,
                                          const OneCandidate& one, int most);

// "pp 1 -> 2, recompute off -> full"; dp and micro-batches are named only when nothing else
// differs.
std::string ChangeText(const OneCandidate& from, const OneCandidate& to);

}  // namespace restow::plan
