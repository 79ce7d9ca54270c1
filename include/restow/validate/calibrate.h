// The planner's constants fitted to measured runs.
//
// Maximum a posteriori in the logarithm of the constants: each is pulled towards its start by the
// spread it is allowed, residuals ln(predicted/measured) count by a Huber loss. A constant that
// fewer than two runs can change is left alone. Threads: pure; `threads` workers inside.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "restow/schema/calibration.h"
#include "restow/schema/calibration_report.h"
#include "restow/schema/measured_run.h"

namespace restow {

struct CalibrateOptions {
  std::string id;                            // of the result
  const Calibration* calibration = nullptr;  // to start from; null: the shipped one
  // Start over from what was believed before any fit, as the shipped constants were made, instead
  // of from the constants' present values and spreads.
  bool from_start = false;
  bool leave_out = true;  // work out errors of models and sources that a fit did not see
  int threads = 0;
  // Set from any thread to give up: Calibrate then throws kUsage and has written nothing.
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(const std::string&)> progress;  // a line about what is being done
};

// Errors: kBadInput when the runs determine none of the constants, saying why.
CalibrationReport Calibrate(const std::vector<MeasuredRun>& runs, const CalibrateOptions& options);

// A table of two filled-in runs with every column that a price can use.
std::string CalibrationTemplate();

}  // namespace restow
