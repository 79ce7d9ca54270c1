#include "restow/validate/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "restow/io/measured_runs.h"
#include "restow/io/presets.h"
#include "restow/plan/planner.h"
#include "validate/family.h"
#include "validate/figures.h"
#include "validate/fit.h"
#include "validate/measurement.h"
#include "validate/rules.h"

namespace restow {

using validate::FitProblem;
using validate::FitRun;
using validate::FitState;

namespace {

constexpr int kLeastRuns = 2;  // that a constant must be able to change to be fitted
constexpr int kMostSteps = 10;
// A constant whose spread the runs leave above this share of what was believed is not determined.
constexpr double kDetermined = 0.9;

// Allocated bytes follow from formulas; only what the allocator and the driver add is fitted.
bool FitsMemory(const RunScore& score) { return score.instrument != MemoryInstrument::kAllocated; }

void AddRun(const MeasuredRun& run, const RunScore& score, const Calibration& calibration,
            FitProblem* problem) {
  validate::RunJob made = validate::MakeRunJob(run, &calibration);
  problem->runs.push_back({&run, score.quantity, score.measured,
                           validate::FamilyOf(run.at("model_name")), run.Source(),
                           std::move(made.job), made.one});
}

FitProblem MakeProblem(const std::vector<MeasuredRun>& runs, const CalibrateOptions& options,
                       const Calibration& calibration, CalibrationReport* report) {
  FitProblem problem;
  problem.threads = options.threads;
  problem.cancel = options.cancel;
  const std::set<std::string> contradictions = validate::Contradictions(runs);
  for (const MeasuredRun& run : runs) {
    const validate::ScoredRun scored = validate::ScoreRun(run, contradictions, &calibration);
    if (scored.time) AddRun(run, *scored.time, calibration, &problem);
    if (scored.memory && FitsMemory(*scored.memory)) {
      AddRun(run, *scored.memory, calibration, &problem);
    }
    if (!scored.time && !scored.why_not_time.empty()) {
      validate::CountReason(scored.why_not_time, RunQuantity::kTime, &report->unscorable);
    }
    if (!scored.memory && !scored.why_not_memory.empty() && validate::MeasuredGib(run)) {
      validate::CountReason(scored.why_not_memory, RunQuantity::kMemory, &report->unscorable);
    }
  }
  for (const auto& [name, constant] : calibration.constants) {
    if (constant.allowed <= 0 || constant.value <= 0) continue;
    const double start = constant.start > 0 ? constant.start : constant.value;
    // A user's runs start from what the shipped fit found and may go half as far as it could.
    const double mean = options.from_start ? start : constant.value;
    const double sigma =
        options.from_start ? constant.allowed : std::max(constant.spread, constant.allowed / 2);
    problem.constants.push_back({name, std::log(mean), sigma});
  }
  return problem;
}

std::vector<double> Means(const FitProblem& problem) {
  std::vector<double> values;
  for (const validate::FitConstant& c : problem.constants) values.push_back(c.mean);
  return values;
}

std::vector<int> RunsBehind(const FitProblem& problem, const FitState& state) {
  std::vector<int> counts(problem.constants.size(), 0);
  for (std::size_t r = 0; r < problem.runs.size(); ++r) {
    for (std::size_t k = 0; k < counts.size(); ++k) {
      if (state.slope(problem, r, k) != 0) ++counts[k];
    }
  }
  return counts;
}

ErrorFigures FiguresOf(const FitProblem& problem, const std::vector<double>& residuals,
                       RunQuantity quantity) {
  std::vector<RunScore> scores;
  for (std::size_t r = 0; r < problem.runs.size(); ++r) {
    if (problem.runs[r].quantity != quantity) continue;
    RunScore score;
    score.measured = 1;
    score.predicted = std::exp(residuals[r]);
    scores.push_back(score);
  }
  std::vector<const RunScore*> pointers;
  for (const RunScore& score : scores) pointers.push_back(&score);
  return validate::FiguresOf(pointers);
}

// "bloom 92, mpt 14": runs that a constant can change, by source.
std::string FittedOn(const FitProblem& problem, const FitState& state, std::size_t constant) {
  std::map<std::string, int> counts;
  for (std::size_t r = 0; r < problem.runs.size(); ++r) {
    if (state.slope(problem, r, constant) != 0) ++counts[problem.runs[r].source];
  }
  std::vector<std::string> parts;
  for (const auto& [source, n] : counts) parts.push_back(fmt::format("{} {}", source, n));
  return fmt::format("{}", fmt::join(parts, ", "));
}

[[noreturn]] void RefuseUndetermined(const CalibrationReport& report, const FitProblem& problem) {
  std::string text = fmt::format(
      "these runs determine none of the constants: {} figures can be used", problem.runs.size());
  int shown = 0;
  for (const UnscorableReason& reason : report.unscorable) {
    if (++shown > 5) break;
    text +=
        fmt::format("; {} not, because: {}", reason.memory_rows + reason.time_rows, reason.reason);
  }
  shown = 0;
  for (const FittedConstant& c : report.constants) {
    if (c.remark.empty() || ++shown > 5) continue;
    text += fmt::format("; {}: {}", c.name, c.remark);
  }
  ThrowBadInput(text +
                ". Two runs or more of one device and software with a measured step time "
                "are needed; 'restow calibrate --template' shows the columns");
}

void ReportConstants(const FitProblem& problem, const std::vector<double>& start,
                     const FitState& state, const std::vector<double>& spreads,
                     const std::vector<bool>& active, CalibrationReport* report) {
  const std::vector<int> behind = RunsBehind(problem, state);
  for (std::size_t k = 0; k < problem.constants.size(); ++k) {
    if (behind[k] == 0) continue;
    FittedConstant c;
    c.name = problem.constants[k].name;
    c.before = std::exp(start[k]);
    c.value = std::exp(state.values[k]);
    c.spread = spreads[k];
    c.rows = behind[k];
    c.determined = active[k] && spreads[k] <= kDetermined * problem.constants[k].sigma;
    if (!active[k]) {
      c.remark = "left alone: only one run can tell it";
    } else if (!c.determined) {
      c.remark = "the runs hardly narrow it";
    }
    report->constants.push_back(c);
  }
}

// What did not move keeps what was believed before this fit, which is what the others were fitted
// beside.
void WriteConstants(const FitProblem& problem, const FitState& state,
                    const std::vector<double>& spreads, const std::vector<bool>& active,
                    bool from_start, Calibration* calibration) {
  const std::vector<int> behind = RunsBehind(problem, state);
  for (std::size_t k = 0; k < problem.constants.size(); ++k) {
    if (!active[k] && !from_start) continue;
    Constant& constant = calibration->constants[problem.constants[k].name];
    if (constant.start == 0) constant.start = constant.value;
    constant.value = std::stod(fmt::format("{:.4g}", std::exp(state.values[k])));
    constant.spread = active[k] ? std::stod(fmt::format("{:.2g}", spreads[k])) : 0;
    constant.rows = active[k] ? behind[k] : 0;
    constant.fitted_on = active[k] ? FittedOn(problem, state, k) : "";
  }
}

// A run with both figures counts once.
int CountRuns(const FitProblem& problem) {
  std::set<std::string> ids;
  for (const FitRun& run : problem.runs) ids.insert(run.run->id);
  return static_cast<int>(ids.size());
}

LeftOut LeaveOut(FitProblem& problem, const FitState& state, const std::vector<bool>& active,
                 const char* by, std::string FitRun::*key) {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t r = 0; r < problem.runs.size(); ++r) {
    if (problem.runs[r].quantity == RunQuantity::kTime) groups[problem.runs[r].*key].push_back(r);
  }
  std::vector<double> unseen, seen;
  for (const auto& [name, members] : groups) {
    std::vector<bool> left_out(problem.runs.size(), false);
    for (std::size_t r = 0; r < problem.runs.size(); ++r)
      left_out[r] = problem.runs[r].*key == name;
    const std::vector<double> values = validate::WithoutRuns(problem, state, active, left_out);
    const std::vector<double> residuals = validate::ResidualsOf(problem, values, members);
    for (std::size_t i = 0; i < members.size(); ++i) {
      unseen.push_back(100 * std::abs(std::exp(residuals[i]) - 1));
      seen.push_back(100 * std::abs(std::exp(state.residuals[members[i]]) - 1));
    }
  }
  LeftOut result;
  result.by = by;
  result.groups = static_cast<int>(groups.size());
  result.runs = static_cast<int>(unseen.size());
  result.median_abs_pct = validate::Median(unseen);
  result.p95_abs_pct = validate::Quantile(unseen, 0.95);
  result.fitted_median_abs_pct = validate::Median(seen);
  result.fitted_p95_abs_pct = validate::Quantile(seen, 0.95);
  return result;
}

}  // namespace

CalibrationReport Calibrate(const std::vector<MeasuredRun>& runs, const CalibrateOptions& options) {
  const auto say = [&](const std::string& line) {
    if (options.progress) options.progress(line);
  };
  const Calibration& base =
      options.calibration != nullptr ? *options.calibration : DefaultCalibration();
  CalibrationReport report;
  report.version = kVersion;
  FitProblem problem = MakeProblem(runs, options, base, &report);
  say(fmt::format("{} figures of {} runs can be used", problem.runs.size(), runs.size()));
  const std::vector<double> start = Means(problem);
  FitState first;
  first.values = start;
  first.residuals = validate::Residuals(problem, start);
  first.jacobian = validate::Jacobian(problem, start, first.residuals);
  report.time_before = FiguresOf(problem, first.residuals, RunQuantity::kTime);
  report.memory_before = FiguresOf(problem, first.residuals, RunQuantity::kMemory);

  std::vector<bool> active;
  for (const int n : RunsBehind(problem, first)) active.push_back(n >= kLeastRuns);
  say("fitting");
  const FitState state = validate::Minimise(problem, start, active, kMostSteps);
  const std::vector<double> spreads = validate::Spreads(problem, state, active);
  ReportConstants(problem, start, state, spreads, active, &report);
  const bool determined = std::any_of(report.constants.begin(), report.constants.end(),
                                      [](const FittedConstant& c) { return c.determined; });
  if (!determined) RefuseUndetermined(report, problem);

  report.time = FiguresOf(problem, state.residuals, RunQuantity::kTime);
  report.memory = FiguresOf(problem, state.residuals, RunQuantity::kMemory);
  report.calibration = base;
  report.calibration.id = options.id;
  report.calibration.rows = CountRuns(problem);
  report.calibration.left_out.clear();
  WriteConstants(problem, state, spreads, active, options.from_start, &report.calibration);
  if (options.leave_out) {
    say("leaving out one model at a time");
    report.calibration.left_out.push_back(
        LeaveOut(problem, state, active, "model", &FitRun::model));
    say("leaving out one source at a time");
    report.calibration.left_out.push_back(
        LeaveOut(problem, state, active, "source", &FitRun::source));
  }
  return report;
}

std::string CalibrationTemplate() {
  const std::map<std::string, std::string> first = {
      {"id", "mine-001"},
      {"source", "our cluster, 2026-11"},
      {"hardware", "H100-SXM 80GB"},
      {"n_gpus", "64"},
      {"model_name", "llama3-70b"},
      {"layers", "80"},
      {"hidden", "8192"},
      {"ffn_hidden", "28672"},
      {"heads", "64"},
      {"kv_heads", "8"},
      {"head_dim", "128"},
      {"vocab", "128256"},
      {"mla", "0"},
      {"gated_mlp", "1"},
      {"tied_embed", "0"},
      {"seq_len", "8192"},
      {"global_batch", "512"},
      {"micro_batch", "1"},
      {"dp", "4"},
      {"zero_stage_or_fsdp", "zero1"},
      {"tp", "4"},
      {"sp", "1"},
      {"cp", "1"},
      {"ep", "1"},
      {"pp", "4"},
      {"vpp", "5"},
      {"schedule", "interleaved 1F1B"},
      {"recompute", "off"},
      {"precision", "bf16"},
      {"measured_iter_time_s", "80.8"},
      {"oom", "0"},
      {"confidence", "3"},
      {"framework", "megatron"},
      {"release", "megatron-bridge 26.06"},
      {"switches", "attention=fused;loss=te-fused;te=2.11;tp_overlap=1"}};
  std::map<std::string, std::string> second = first;
  second["id"] = "mine-002";
  second["tp"] = "8";
  second["pp"] = "2";
  second["vpp"] = "10";
  second["recompute"] = "selective core_attn";
  second["measured_iter_time_s"] = "86.6";
  second["measured_peak_mem_gib"] = "61.2";
  second["mem_metric"] = "torch max allocated";
  std::string text = fmt::format("{}\n", fmt::join(MeasuredRunColumns(), ","));
  for (const auto& run : {first, second}) {
    std::vector<std::string> cells;
    for (const std::string& column : MeasuredRunColumns()) {
      const auto found = run.find(column);
      const std::string cell = found == run.end() ? "" : found->second;
      cells.push_back(cell.find(',') == std::string::npos ? cell : "\"" + cell + "\"");
    }
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

}  // namespace restow
