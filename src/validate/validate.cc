// Many runs scored, and what follows from them together.
#include "restow/validate/validate.h"

#include <algorithm>
#include <cmath>

#include "restow/base/text.h"
#include "restow/io/presets.h"
#include "validate/figures.h"
#include "validate/measurement.h"
#include "validate/parallel.h"
#include "validate/row.h"
#include "validate/rules.h"
#include "validate/score.h"
#include "validate/sweeps.h"

namespace restow {

using validate::FiguresOf;
using validate::ScoredRun;

namespace {

constexpr std::size_t kWorst = 10;

std::vector<ScoredRun> ScoreAll(const std::vector<MeasuredRun>& runs,
                                const ValidateOptions& options) {
  const std::set<std::string> contradictions = validate::Contradictions(runs);
  std::vector<ScoredRun> scored(runs.size());
  validate::ForEach(runs.size(), options.threads, [&](std::size_t i) {
    scored[i] = validate::ScoreRun(runs[i], contradictions, options.calibration);
  });
  return scored;
}

// Only runs that measured the quantity are counted: the rest have nothing to be scored.
void CountUnscorable(const std::vector<ScoredRun>& scored, Validation* v) {
  for (const ScoredRun& run : scored) {
    const bool has_memory = validate::MeasuredGib(*run.run) || run.run->at("oom") == "1";
    if (has_memory && !run.why_not_memory.empty()) {
      validate::CountReason(run.why_not_memory, RunQuantity::kMemory, &v->unscorable);
    }
    if (!run.why_not_time.empty()) {
      validate::CountReason(run.why_not_time, RunQuantity::kTime, &v->unscorable);
    }
  }
  std::stable_sort(v->unscorable.begin(), v->unscorable.end(),
                   [](const UnscorableReason& a, const UnscorableReason& b) {
                     return a.memory_rows + a.time_rows > b.memory_rows + b.time_rows;
                   });
}

void CountFits(const std::vector<ScoredRun>& scored, Validation* v) {
  for (const ScoredRun& run : scored) {
    if (!run.memory_priced) continue;
    const bool fits = run.price->candidate.fits;
    if (run.known_oom) {
      ++v->oom_known;
      if (fits) ++v->oom_called_fitting, v->called_fitting.push_back(run.run->id);
    } else if (run.known_fit) {
      ++v->fits_known;
      if (!fits) ++v->fits_called_oom, v->called_oom.push_back(run.run->id);
    }
  }
}

std::vector<const RunScore*> Of(const std::vector<RunScore>& scores, RunQuantity quantity,
                                const std::string* group = nullptr,
                                std::string RunScore::*key = nullptr) {
  std::vector<const RunScore*> some;
  for (const RunScore& score : scores) {
    if (score.quantity != quantity || (group != nullptr && score.*key != *group)) continue;
    some.push_back(&score);
  }
  return some;
}

void SumUpSweeps(Validation* v) {
  std::vector<double> taus, regrets;
  for (const Sweep& sweep : v->sweeps) {
    taus.push_back(sweep.tau);
    regrets.push_back(sweep.regret_pct);
  }
  if (taus.empty()) return;
  v->tau_median = validate::Median(taus);
  v->tau_min = *std::min_element(taus.begin(), taus.end());
  v->regret_median_pct = validate::Median(regrets);
  v->regret_max_pct = *std::max_element(regrets.begin(), regrets.end());
}

std::string RunScore::*KeyOf(const std::string& by) {
  if (by == "source") return &RunScore::source;
  if (by == "model") return &RunScore::model;
  if (by == "device") return &RunScore::device;
  ThrowUsage("--by " + by + ": source, model and device are possible");
}

void AddGroups(const std::string& by, Validation* v) {
  std::string RunScore::*const key = KeyOf(by);
  v->grouped_by = by;
  std::vector<std::string> names;
  for (const RunScore& score : v->scores) {
    if (std::find(names.begin(), names.end(), score.*key) == names.end()) {
      names.push_back(score.*key);
    }
  }
  for (const std::string& name : names) {
    v->groups.push_back({name, FiguresOf(Of(v->scores, RunQuantity::kMemory, &name, key)),
                         FiguresOf(Of(v->scores, RunQuantity::kTime, &name, key))});
  }
}

void AddWorst(Validation* v) {
  v->worst = v->scores;
  std::stable_sort(v->worst.begin(), v->worst.end(), [](const RunScore& a, const RunScore& b) {
    return std::abs(a.pct()) > std::abs(b.pct());
  });
  v->worst.resize(std::min(v->worst.size(), kWorst));
}

const MeasuredRun& FindRun(const std::vector<MeasuredRun>& runs, const std::string& id) {
  std::vector<std::string> ids;
  for (const MeasuredRun& run : runs) {
    if (run.id == id) return run;
    ids.push_back(run.id);
  }
  ThrowBadInput("no run is called '" + id + "'" + DidYouMean(id, ids));
}

// The source lists ranks stage by stage; its figure of a stage is the largest.
void AddRanks(const MeasuredRun& run, const Candidate& candidate, RunReport* report) {
  const std::vector<double> measured = validate::MeasuredRanks(run);
  const std::size_t stages = candidate.ranks.size();
  if (measured.size() < 2 || measured.size() % stages != 0) return;
  const std::size_t each = measured.size() / stages;
  for (std::size_t s = 0; s < stages; ++s) {
    const auto first = measured.begin() + static_cast<std::ptrdiff_t>(s * each);
    report->ranks.emplace_back(*std::max_element(first, first + static_cast<std::ptrdiff_t>(each)),
                               static_cast<double>(candidate.ranks[s].peak.value()) / kGiB);
  }
}

}  // namespace

Validation ValidateRuns(const std::vector<MeasuredRun>& runs, const ValidateOptions& options) {
  KeyOf(options.by);
  const Calibration& calibration =
      options.calibration != nullptr ? *options.calibration : DefaultCalibration();
  const std::vector<ScoredRun> scored = ScoreAll(runs, options);
  Validation v;
  v.version = kVersion;
  v.calibration_id = calibration.id;
  v.calibration_rows = calibration.rows;
  v.left_out = calibration.left_out;
  v.rows = static_cast<int>(runs.size());
  for (const ScoredRun& run : scored) {
    if (run.memory) v.scores.push_back(*run.memory);
    if (run.time) v.scores.push_back(*run.time);
  }
  CountUnscorable(scored, &v);
  v.memory = FiguresOf(Of(v.scores, RunQuantity::kMemory));
  v.time = FiguresOf(Of(v.scores, RunQuantity::kTime));
  CountFits(scored, &v);
  v.sweeps = validate::FindSweeps(scored);
  SumUpSweeps(&v);
  AddGroups(options.by, &v);
  AddWorst(&v);
  return v;
}

RunReport ShowRun(const std::vector<MeasuredRun>& runs, const std::string& id,
                  const ValidateOptions& options) {
  const MeasuredRun& run = FindRun(runs, id);
  const ScoredRun scored =
      validate::ScoreRun(run, validate::Contradictions(runs), options.calibration);
  RunReport report;
  report.id = id;
  report.why_not_memory = scored.why_not_memory;
  report.why_not_time = scored.why_not_time;
  if (!scored.price) return report;
  const validate::JobText text = validate::WriteJobText(run);
  report.job_text = text.yaml;
  report.assumed = text.assumed;
  report.price = scored.price;
  if (scored.memory) report.scores.push_back(*scored.memory);
  if (scored.time) report.scores.push_back(*scored.time);
  AddRanks(run, scored.price->candidate, &report);
  return report;
}

}  // namespace restow
