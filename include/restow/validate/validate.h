// The planner held against measured runs, and its constants fitted to them.
//
// A row becomes a job file (RunJobText) that is read like any user's. Which rows cannot be scored
// follows from their columns by the rules of src/validate/rules.cc, never from their ids.
// Threads: all functions are pure but for reading presets; `threads` workers inside.
#pragma once

#include <string>
#include <vector>

#include "restow/schema/calibration.h"
#include "restow/schema/job.h"
#include "restow/schema/measured_run.h"
#include "restow/schema/validation.h"

namespace restow {

struct ValidateOptions {
  std::string by = "source";                 // source, model, device
  const Calibration* calibration = nullptr;  // null: the shipped one
  int threads = 0;
};

Validation ValidateRuns(const std::vector<MeasuredRun>& runs, const ValidateOptions& options);

// One row whole. Errors: kBadInput when no row has that id, with the nearest.
RunReport ShowRun(const std::vector<MeasuredRun>& runs, const std::string& id,
                  const ValidateOptions& options);

}  // namespace restow
