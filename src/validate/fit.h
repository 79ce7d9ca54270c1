// Constants fitted to runs: the numerical part of calibrate.
//
// cost = sum of Huber(ln(predicted/measured)/sigma) over runs
//      + sum of ((ln value − ln start)/allowed)²/2 over constants
// minimised by Gauss-Newton with Levenberg-Marquardt damping and numerical derivatives.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "validate/least_squares.h"
#include "validate/score.h"

namespace restow::validate {

// One figure to be met. The job is the fit's own copy; its calibration is changed in place.
struct FitRun {
  const MeasuredRun* run = nullptr;
  RunQuantity quantity = RunQuantity::kTime;
  double measured = 0;
  std::string model, source;
  Job job;
  OneCandidate one;
};

struct FitConstant {
  std::string name;
  double mean = 0;   // ln of what is believed without the runs
  double sigma = 1;  // how far ln may go from it
};

struct FitProblem {
  std::vector<FitRun> runs;
  std::vector<FitConstant> constants;
  int threads = 0;
  const std::atomic<bool>* cancel = nullptr;  // see CalibrateOptions
};

struct FitState {
  std::vector<double> values;     // ln of each constant
  std::vector<double> residuals;  // ln(predicted/measured) of each run
  std::vector<double> jacobian;   // runs × constants, row by row
  double slope(const FitProblem& p, std::size_t run, std::size_t constant) const {
    return jacobian[run * p.constants.size() + constant];
  }
};

// ln(predicted/measured) of every run under the constants.
std::vector<double> Residuals(FitProblem& problem, const std::vector<double>& values);
// The same of some runs, in the order of `runs`.
std::vector<double> ResidualsOf(FitProblem& problem, const std::vector<double>& values,
                                const std::vector<std::size_t>& runs);
// Derivatives by each constant. Runs that a constant cannot change have exactly 0.
std::vector<double> Jacobian(FitProblem& problem, const std::vector<double>& values,
                             const std::vector<double>& residuals);

// From `values` to the minimum; the jacobian is of the last point. `active` constants move.
FitState Minimise(FitProblem& problem, std::vector<double> values, const std::vector<bool>& active,
                  int most_steps);

// Values that minimise the cost without the runs left out, by steps with the jacobian of `state`.
std::vector<double> WithoutRuns(FitProblem& problem, const FitState& state,
                                const std::vector<bool>& active, const std::vector<bool>& left_out);

// Standard deviation of ln of each constant after the fit; `sigma` of those that did not move.
std::vector<double> Spreads(const FitProblem& problem, const FitState& state,
                            const std::vector<bool>& active);

}  // namespace restow::validate
