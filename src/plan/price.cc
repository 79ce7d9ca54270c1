// One candidate, or two, as reports.
#include "plan/price/candidate.h"
#include "plan/rules/rules.h"
#include "restow/plan/planner.h"

namespace restow {
namespace {

// A layout that breaks a rule has no price: its formulas would divide what does not divide.
[[noreturn]] void RefuseToPrice(const Refusal& refusal) {
  ThrowBadInput("the candidate breaks the rule " + refusal.rule + ": " + refusal.detail);
}

}  // namespace

PriceReport Price(const Job& job, const OneCandidate& one) {
  PriceReport report;
  report.version = kVersion;
  report.job_digest = job.digest;
  report.job_name = job.name;
  report.model = job.model;
  report.calibration_id = job.calibration.id;
  report.calibration_rows = job.calibration.rows;
  if (const auto refusal = plan::CheckRules(job, one.layout)) RefuseToPrice(*refusal);
  const plan::Context context(job);
  report.candidate = plan::PriceCandidate(context, one.layout, one.recompute);
  return report;
}

Seconds PriceStep(const Job& job, const OneCandidate& one) {
  return plan::PriceStep(plan::Context(job), one.layout, one.recompute);
}

Comparison Compare(const Job& job, const OneCandidate& a, const OneCandidate& b) {
  Comparison comparison;
  comparison.version = kVersion;
  comparison.job_digest = job.digest;
  comparison.job_name = job.name;
  comparison.a = Price(job, a).candidate;
  comparison.b = Price(job, b).candidate;
  for (std::size_t t = 0; t < kMemoryTerms; ++t) {
    comparison.memory_difference[t] = comparison.b.memory[t] - comparison.a.memory[t];
  }
  for (std::size_t t = 0; t < kTimeTerms; ++t) {
    comparison.time_difference[t] = comparison.b.time[t] - comparison.a.time[t];
  }
  return comparison;
}

}  // namespace restow
