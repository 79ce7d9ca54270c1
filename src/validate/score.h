// One run priced: its job, the candidate it ran with, and both figures beside what was measured.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "restow/plan/planner.h"
#include "restow/schema/calibration.h"
#include "restow/schema/measured_run.h"
#include "restow/schema/validation.h"
#include "validate/job_text.h"

namespace restow::validate {

// A run as a job. Errors: those of ReadJob and TheCandidate.
struct RunJob {
  JobText text;
  Job job;
  OneCandidate one;
};
RunJob MakeRunJob(const MeasuredRun& run, const Calibration* calibration);

struct ScoredRun {
  const MeasuredRun* run = nullptr;
  std::string why_not_memory, why_not_time;  // "" where scored
  std::optional<RunScore> memory, time;
  std::optional<PriceReport> price;  // where the memory or the time could be priced
  bool known_oom = false;            // ran out of memory
  bool known_fit = false;            // ran, with its recompute stated
  bool memory_priced = false;
};

ScoredRun ScoreRun(const MeasuredRun& run, const std::set<std::string>& contradictions,
                   const Calibration* calibration);

// GiB of the instrument that the source read.
double PredictedGib(const MeasuredRun& run, const Candidate& candidate);

}  // namespace restow::validate
