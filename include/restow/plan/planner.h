// The planner's face: a job in, a report out.
//
// Pure: no files, no environment, no clock; the same bytes for any number of threads. A Job passed
// in has been validated and is never changed.
// Errors: kInternal only, except where said.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "restow/schema/activation_plan.h"
#include "restow/schema/job.h"
#include "restow/schema/report.h"

namespace restow {

struct SearchProgress {
  std::int64_t done = 0;   // search units finished
  std::int64_t units = 0;  // of so many
  std::int64_t candidates = 0;
  std::int64_t fitting = 0;
  Seconds best;  // 0: none yet
};

struct SearchOptions {
  int top = 10;
  int threads = 0;    // 0: as many as the machine has
  bool bound = true;  // false: price what cannot win, too (for measuring; the answer is the same)
  // Set from any thread (a signal handler too) to stop early; the report is then incomplete.
  const std::atomic<bool>* cancel = nullptr;
  // Called between rounds on the calling thread.
  std::function<void(const SearchProgress&)> progress;
};

PlanReport Plan(const Job& job, const SearchOptions& options);

// The one candidate a job's search space describes: every searched dimension is one value.
// Dimensions left out take the job's current value, else what follows from the rest (dp from the
// device count, zero and sp their framework's default). Errors: kBadInput naming what is missing or
// is a list.
struct OneCandidate {
  Layout layout;
  RecomputePlan recompute;
};
OneCandidate TheCandidate(const Job& job);
// The same where every stated dimension is one value; where some are open, the best candidate of
// the search that is left, or its nearest miss, stands for them ("why not pp=1?").
OneCandidate CandidateUnder(const Job& job, const SearchOptions& options);
// What the job runs with today. Errors: kBadInput when it states nothing or too little.
OneCandidate CurrentCandidate(const Job& job);

// The candidate of rank `rank` in `report`. Errors: kBadInput when fewer are ranked.
OneCandidate RankedCandidate(const PlanReport& report, int rank);

PriceReport Price(const Job& job, const OneCandidate& one);
// The candidate's step time alone, several times faster. Requires: it keeps the rules.
Seconds PriceStep(const Job& job, const OneCandidate& one);
Explanation Explain(const Job& job, const OneCandidate& one, const SearchOptions& options);
Comparison Compare(const Job& job, const OneCandidate& a, const OneCandidate& b);

// One plan per stage. `modules` is the pattern of a layer's module name with `{layer}` in it.
// Errors: kBadInput when the pattern lacks `{layer}`.
std::vector<ActivationPlan> ExportActivationPlans(const Job& job, const OneCandidate& one,
                                                  const std::string& modules);

extern const char* const kVersion;

}  // namespace restow
