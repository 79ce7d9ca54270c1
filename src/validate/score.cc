#include "validate/score.h"

#include <algorithm>
#include <cmath>

#include "restow/base/text.h"
#include "restow/io/document.h"
#include "restow/io/read.h"
#include "validate/measurement.h"
#include "validate/row.h"
#include "validate/rules.h"
#include "validate/run_shape.h"

namespace restow::validate {
namespace {

constexpr double kGibBytes = 1024.0 * 1024 * 1024;

double Gib(Bytes bytes) { return static_cast<double>(bytes.value()) / kGibBytes; }

RunScore NewScore(const MeasuredRun& run, RunQuantity quantity, double measured, double predicted) {
  RunScore score;
  score.id = run.id;
  score.source = run.Source();
  score.model = run.at("model_name");
  score.device = DeviceOf(run);
  score.quantity = quantity;
  score.measured = measured;
  score.predicted = predicted;
  if (quantity == RunQuantity::kMemory) score.instrument = InstrumentOf(run);
  return score;
}

// Where the library chose the attention kernel, the figure counts only if the kernels differ by
// less than 5 % or the device cannot hold the other one.
bool KernelMatters(const MeasuredRun& run, const Candidate& flash, const Calibration* calibration) {
  if (UnfusedAttention(run)) return false;
  MeasuredRun other = run;
  other.switches["attention"] = "unfused";
  const RunJob made = MakeRunJob(other, calibration);
  const Candidate unfused = Price(made.job, made.one).candidate;
  const double a = PredictedGib(run, flash), b = PredictedGib(run, unfused);
  return b < Gib(unfused.capacity) && b > 1.05 * a;
}

void ScoreTime(ScoredRun* scored) {
  const auto seconds = MeasuredSeconds(*scored->run);
  if (!seconds) {
    scored->why_not_time = "no time measured";
    return;
  }
  scored->time =
      NewScore(*scored->run, RunQuantity::kTime, *seconds, scored->price->candidate.step.value());
}

void ScoreMemory(ScoredRun* scored, const Calibration* calibration) {
  const MeasuredRun& run = *scored->run;
  const Candidate& candidate = scored->price->candidate;
  if (KernelLeftToLibrary(run) && KernelMatters(run, candidate, calibration)) {
    scored->why_not_memory = "attention kernel left to the library, and both fit";
    return;
  }
  scored->memory_priced = true;
  const auto gib = MeasuredGib(run);
  scored->known_oom = run.at("oom") == "1";
  // A run whose time cannot be scored for its shape says nothing about what fits either.
  scored->known_fit =
      !scored->known_oom && !run.at("recompute").empty() && (gib || scored->why_not_time.empty());
  if (gib && !scored->known_oom) {
    scored->memory = NewScore(run, RunQuantity::kMemory, *gib, PredictedGib(run, candidate));
  }
}

// Prices the run; the reason why not otherwise.
std::string TryPrice(ScoredRun* scored, const Calibration* calibration) {
  try {
    const RunJob made = MakeRunJob(*scored->run, calibration);
    scored->price = Price(made.job, made.one);
    return "";
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    // A rule's sentence starts with its name; the numbers behind it differ from row to row.
    const std::string& message = error.message();
    return "the job made of the row is refused: " + message.substr(0, message.find(':'));
  }
}

}  // namespace

RunJob MakeRunJob(const MeasuredRun& run, const Calibration* calibration) {
  RunJob made;
  made.text = WriteJobText(run);
  const Node document = ParseDocument(made.text.yaml, Language::kYaml, "run " + run.id);
  ReadOptions options;
  options.strict = true;
  made.job = ReadJob(document, ".", options);
  if (calibration != nullptr) made.job.calibration = *calibration;
  made.one = TheCandidate(made.job);
  return made;
}

double PredictedGib(const MeasuredRun& run, const Candidate& candidate) {
  switch (InstrumentOf(run)) {
    case MemoryInstrument::kReserved:
      return Gib(candidate.reserved);
    case MemoryInstrument::kProcess:
      return Gib(candidate.process);
    case MemoryInstrument::kAllocated:
      break;
  }
  return Gib(MeasuresLastStage(run) ? candidate.ranks.back().peak : candidate.peak);
}

ScoredRun ScoreRun(const MeasuredRun& run, const std::set<std::string>& contradictions,
                   const Calibration* calibration) {
  ScoredRun scored;
  scored.run = &run;
  scored.why_not_memory = WhyUnscorable(run, RunQuantity::kMemory);
  scored.why_not_time = WhyUnscorable(run, RunQuantity::kTime);
  if (scored.why_not_memory.empty() && contradictions.count(run.id) != 0) {
    scored.why_not_memory = "contradicts a run of equal configuration";
  }
  if (!scored.why_not_memory.empty() && !scored.why_not_time.empty()) return scored;
  const std::string refused = TryPrice(&scored, calibration);
  if (!refused.empty()) {
    if (scored.why_not_memory.empty()) scored.why_not_memory = refused;
    if (scored.why_not_time.empty()) scored.why_not_time = refused;
    return scored;
  }
  if (scored.why_not_time.empty()) ScoreTime(&scored);
  if (scored.why_not_memory.empty()) ScoreMemory(&scored, calibration);
  return scored;
}

}  // namespace restow::validate
