#include "validate/fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "validate/parallel.h"

namespace restow::validate {
namespace {

// Scatter of one run about a right model, and where Huber's loss turns linear, in units of it.
constexpr double kSigma = 0.05;
constexpr double kHuber = 2.0;
constexpr double kNudge = 0.02;       // of ln, for derivatives
constexpr double kLargestStep = 0.3;  // of ln
constexpr double kEnough = 0.05;      // a step that gains less ends the search

double Huber(double z) {
  const double a = std::abs(z);
  return a < kHuber ? a * a / 2 : kHuber * a - kHuber * kHuber / 2;
}

// Weight of a run in the normal equations.
double WeightOf(double residual) {
  return 1 / std::max(1.0, std::abs(residual) / (kHuber * kSigma)) / (kSigma * kSigma);
}

double Evaluate(const FitRun& run) {
  const double predicted = run.quantity == RunQuantity::kTime
                               ? PriceStep(run.job, run.one).value()
                               : PredictedGib(*run.run, Price(run.job, run.one).candidate);
  return std::log(predicted / run.measured);
}

void SetConstants(const FitProblem& problem, const std::vector<double>& values, Job& job) {
  for (std::size_t k = 0; k < values.size(); ++k) {
    job.calibration.constants[problem.constants[k].name].value = std::exp(values[k]);
  }
}

double Cost(const FitProblem& problem, const std::vector<double>& residuals,
            const std::vector<double>& values) {
  double cost = 0;
  for (const double r : residuals) cost += Huber(r / kSigma);
  for (std::size_t k = 0; k < values.size(); ++k) {
    const double z = (values[k] - problem.constants[k].mean) / problem.constants[k].sigma;
    cost += z * z / 2;
  }
  return cost;
}

struct Normal {
  SquareMatrix matrix;
  std::vector<double> gradient;
};

// Of the active constants, in order. Runs left out do not count.
Normal NormalEquations(const FitProblem& problem, const FitState& state,
                       const std::vector<std::size_t>& active, const std::vector<bool>* left_out) {
  Normal normal{SquareMatrix(active.size()), std::vector<double>(active.size(), 0.0)};
  for (std::size_t i = 0; i < active.size(); ++i) {
    const FitConstant& constant = problem.constants[active[i]];
    const double precision = 1 / (constant.sigma * constant.sigma);
    normal.matrix.at(i, i) += precision;
    normal.gradient[i] += (state.values[active[i]] - constant.mean) * precision;
  }
  for (std::size_t r = 0; r < problem.runs.size(); ++r) {
    if (left_out != nullptr && (*left_out)[r]) continue;
    const double weight = WeightOf(state.residuals[r]);
    for (std::size_t i = 0; i < active.size(); ++i) {
      const double slope = state.slope(problem, r, active[i]);
      if (slope == 0) continue;
      normal.gradient[i] += weight * slope * state.residuals[r];
      for (std::size_t k = 0; k <= i; ++k) {
        normal.matrix.at(i, k) += weight * slope * state.slope(problem, r, active[k]);
      }
    }
  }
  for (std::size_t i = 0; i < active.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) normal.matrix.at(k, i) = normal.matrix.at(i, k);
  }
  return normal;
}

std::vector<std::size_t> Indexes(const std::vector<bool>& active) {
  std::vector<std::size_t> indexes;
  for (std::size_t k = 0; k < active.size(); ++k) {
    if (active[k]) indexes.push_back(k);
  }
  return indexes;
}

std::vector<double> Stepped(const FitState& state, const Normal& normal,
                            const std::vector<std::size_t>& active, double damping) {
  SquareMatrix damped = normal.matrix;
  for (std::size_t i = 0; i < damped.n; ++i) damped.at(i, i) *= 1 + damping;
  const std::vector<double> step = Solve(damped, normal.gradient);
  std::vector<double> values = state.values;
  for (std::size_t i = 0; i < active.size(); ++i) {
    values[active[i]] -= std::clamp(step[i], -kLargestStep, kLargestStep);
  }
  return values;
}

// Between two passes over the runs.
void GiveUpIfAsked(const FitProblem& problem) {
  if (problem.cancel != nullptr && *problem.cancel) ThrowUsage("the fit was interrupted");
}

}  // namespace

std::vector<double> ResidualsOf(FitProblem& problem, const std::vector<double>& values,
                                const std::vector<std::size_t>& runs) {
  GiveUpIfAsked(problem);
  std::vector<double> residuals(runs.size());
  ForEach(runs.size(), problem.threads, [&](std::size_t i) {
    FitRun& run = problem.runs[runs[i]];
    SetConstants(problem, values, run.job);
    residuals[i] = Evaluate(run);
  });
  return residuals;
}

std::vector<double> Residuals(FitProblem& problem, const std::vector<double>& values) {
  std::vector<std::size_t> all(problem.runs.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return ResidualsOf(problem, values, all);
}

std::vector<double> Jacobian(FitProblem& problem, const std::vector<double>& values,
                             const std::vector<double>& residuals) {
  const std::size_t n = problem.constants.size();
  std::vector<double> jacobian(problem.runs.size() * n, 0.0);
  ForEach(problem.runs.size(), problem.threads, [&](std::size_t r) {
    FitRun& run = problem.runs[r];
    SetConstants(problem, values, run.job);
    for (std::size_t k = 0; k < n; ++k) {
      double& value = run.job.calibration.constants[problem.constants[k].name].value;
      const double kept = value;
      value = std::exp(values[k] + kNudge);
      jacobian[r * n + k] = (Evaluate(run) - residuals[r]) / kNudge;
      value = kept;
    }
  });
  return jacobian;
}

FitState Minimise(FitProblem& problem, std::vector<double> values, const std::vector<bool>& active,
                  int most_steps) {
  const std::vector<std::size_t> indexes = Indexes(active);
  FitState state;
  state.values = std::move(values);
  state.residuals = Residuals(problem, state.values);
  double cost = Cost(problem, state.residuals, state.values);
  double damping = 1e-3;
  for (int step = 0; step < most_steps; ++step) {
    state.jacobian = Jacobian(problem, state.values, state.residuals);
    const Normal normal = NormalEquations(problem, state, indexes, nullptr);
    double gain = 0;
    for (int attempt = 0; attempt < 5 && gain == 0; ++attempt) {
      const std::vector<double> trial = Stepped(state, normal, indexes, damping);
      const std::vector<double> residuals = Residuals(problem, trial);
      const double trial_cost = Cost(problem, residuals, trial);
      if (trial_cost < cost) {
        gain = cost - trial_cost;
        cost = trial_cost;
        state.values = trial;
        state.residuals = residuals;
        damping /= 3;
      } else {
        damping *= 6;
      }
    }
    if (gain < kEnough) break;
  }
  state.jacobian = Jacobian(problem, state.values, state.residuals);
  return state;
}

std::vector<double> WithoutRuns(FitProblem& problem, const FitState& state,
                                const std::vector<bool>& active,
                                const std::vector<bool>& left_out) {
  // A constant that only the runs left out can change goes back to what was believed before.
  std::vector<bool> known = active;
  FitState rest = state;
  for (std::size_t k = 0; k < active.size(); ++k) {
    bool seen = false;
    for (std::size_t r = 0; r < problem.runs.size() && !seen; ++r) {
      seen = !left_out[r] && state.slope(problem, r, k) != 0;
    }
    if (!seen && active[k]) {
      known[k] = false;
      rest.values[k] = problem.constants[k].mean;
    }
  }
  const std::vector<std::size_t> indexes = Indexes(known);
  if (indexes.empty()) return rest.values;
  constexpr int kSteps = 2;
  for (int step = 0; step < kSteps; ++step) {
    if (step > 0) rest.residuals = Residuals(problem, rest.values);
    const Normal normal = NormalEquations(problem, rest, indexes, &left_out);
    rest.values = Stepped(rest, normal, indexes, 0);
  }
  return rest.values;
}

std::vector<double> Spreads(const FitProblem& problem, const FitState& state,
                            const std::vector<bool>& active) {
  std::vector<double> spreads;
  for (const FitConstant& constant : problem.constants) spreads.push_back(constant.sigma);
  const std::vector<std::size_t> indexes = Indexes(active);
  if (indexes.empty()) return spreads;
  const std::vector<double> variances =
      InverseDiagonal(NormalEquations(problem, state, indexes, nullptr).matrix);
  for (std::size_t i = 0; i < indexes.size(); ++i) spreads[indexes[i]] = std::sqrt(variances[i]);
  return spreads;
}

}  // namespace restow::validate
