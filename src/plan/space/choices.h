// What each dimension may take: the job's search space with everything left out filled in.
#pragma once

#include <vector>

#include "restow/schema/job.h"
#include "restow/schema/strategy.h"

namespace restow::plan {

// The values allowed, or `automatic`: whatever makes sense beside the dimensions fixed before.
template <class T>
struct Choice {
  bool automatic = false;
  std::vector<T> values;
};

// A dimension left out of the search takes what the job runs with today, else everything.
struct Choices {
  Choice<RankOrder> order;
  Choice<int> tp;
  Choice<bool> sp;
  Choice<int> cp;
  Choice<CpKind> cp_kind;
  Choice<int> ep, etp;
  Choice<int> pp, dp;
  Choice<int> micro_batch;
  Choice<Schedule> schedule;
  Choice<int> vpp;
  Choice<int> zero, zero_span;
  std::vector<RecomputePlan> recompute;  // never automatic: the modes allowed, or the job's own
};

Choices ResolveChoices(const Job& job);

// The recompute a job runs with: what `current` states, else off.
RecomputePlan OwnRecompute(const Job& job);

// Positive divisors, ascending.
std::vector<int> Divisors(int n);

}  // namespace restow::plan
