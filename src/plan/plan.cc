// The search's result made into a report.
#include <fmt/format.h>

#include <algorithm>

#include "plan/explain/changes.h"
#include "plan/price/candidate.h"
#include "plan/rules/rules.h"
#include "plan/search/search.h"
#include "restow/base/units.h"
#include "restow/plan/planner.h"

namespace restow {
namespace {

using plan::Choices;
using plan::Context;
using plan::Scored;
using plan::SearchResult;

Candidate PriceScored(const Context& context, const Choices& choices, const Scored& scored) {
  return plan::PriceCandidate(context, scored.layout,
                              choices.recompute[static_cast<std::size_t>(scored.plan)]);
}

void FillRanked(const Context& context, const Choices& choices, const SearchResult& result,
                PlanReport& report) {
  for (const Scored& scored : result.top.sorted()) {
    report.ranked.push_back(PriceScored(context, choices, scored));
    report.ranked.back().rank = static_cast<int>(report.ranked.size());
  }
  Bytes least(INT64_MAX);
  for (std::size_t i = 0; i < report.ranked.size(); ++i) {
    if (report.ranked[i].peak >= least) continue;
    least = report.ranked[i].peak;
    report.pareto.push_back(static_cast<int>(i));
  }
  for (const Scored& scored : result.front.sorted()) {
    if (scored.peak < least) report.leaner.push_back(PriceScored(context, choices, scored));
  }
}

// What would have to change when nothing in the space fits: a smaller margin, a dimension outside
// it, said to be so (never a mode that was left out), or more devices under the search as stated.
std::string Remedy(const Context& context, const Choices& choices, const Candidate& candidate) {
  const Job& job = context.job;
  if (candidate.peak <= candidate.capacity) {
    return fmt::format("a margin of at most {}", FormatBytes(candidate.capacity - candidate.peak));
  }
  Choices open = choices;
  for (plan::Choice<int>* dimension : {&open.tp, &open.cp, &open.ep, &open.etp, &open.pp, &open.dp,
                                       &open.micro_batch, &open.vpp, &open.zero, &open.zero_span}) {
    *dimension = {true, {}};
  }
  const OneCandidate one{candidate.layout, candidate.recompute};
  const auto changes = plan::FittingChanges(context, open, one, 1);
  if (!changes.empty()) return changes.front().change + " (outside the search)";
  for (const int factor : {2, 4, 8, 16}) {
    Job larger = job;
    larger.cluster.devices *= factor;
    larger.cluster.levels.back().size =
        std::max(larger.cluster.levels.back().size, larger.cluster.devices);
    const Context larger_context(larger);
    const auto wider = plan::FittingChanges(larger_context, choices, one, 1);
    if (!wider.empty()) {
      return fmt::format("{} devices and {}", larger.cluster.devices, wider.front().change);
    }
  }
  return fmt::format("{} more memory on each device",
                     FormatBytes(candidate.peak - candidate.limit));
}

void FillMisses(const Context& context, const Choices& choices, const SearchResult& result,
                PlanReport& report) {
  for (const Scored& scored : result.misses.sorted()) {
    NearestMiss miss;
    miss.candidate = PriceScored(context, choices, scored);
    miss.shortfall = miss.candidate.peak - miss.candidate.limit;
    miss.remedy = Remedy(context, choices, miss.candidate);
    report.nearest_misses.push_back(std::move(miss));
  }
}

// The memory rule's example gets its sentence here, where it can be priced with its terms.
void FillRefused(const Context& context, const SearchResult& result, PlanReport& report) {
  for (const Refusal& refusal : result.refused) {
    if (refusal.count == 0) continue;
    report.refused.push_back(refusal);
    if (refusal.rule != plan::kMemoryRule) continue;
    const Candidate example =
        plan::PriceCandidate(context, refusal.example, refusal.example_recompute);
    const auto largest = std::max_element(example.memory.begin(), example.memory.end());
    const auto term = static_cast<MemoryTerm>(largest - example.memory.begin());
    report.refused.back().detail = fmt::format(
        "{} on stage {} ({}), of which {} {}; {} of {} may be used", FormatBytes(example.peak),
        example.worst_stage, Name(example.worst_phase), FormatBytes(*largest), Name(term),
        FormatBytes(example.limit), FormatBytes(example.capacity));
  }
  std::stable_sort(report.refused.begin(), report.refused.end(),
                   [](const Refusal& a, const Refusal& b) { return a.count > b.count; });
}

void FillCurrent(const Context& context, PlanReport& report) {
  const Job& job = context.job;
  if (!job.current) {
    report.current_note = "the job does not say what it runs with today";
    return;
  }
  const OneCandidate today = CurrentCandidate(job);
  if (const auto refusal = plan::CheckRules(job, today.layout)) {
    report.current_note = fmt::format("what the job runs with today breaks a rule ({}): {}",
                                      refusal->rule, refusal->detail);
    return;
  }
  report.current = plan::PriceCandidate(context, today.layout, today.recompute);
}

}  // namespace

const char* const kVersion = "0.1.0";

PlanReport Plan(const Job& job, const SearchOptions& options) {
  const Context context(job);
  const Choices choices = plan::ResolveChoices(job);
  const SearchResult result = plan::Search(context, choices, options);
  PlanReport report;
  report.version = kVersion;
  report.job_digest = job.digest;
  report.job_name = job.name;
  report.model = job.model;
  report.calibration_id = job.calibration.id;
  report.calibration_rows = job.calibration.rows;
  report.complete = result.complete;
  report.candidates = result.counts;
  FillRefused(context, result, report);
  FillCurrent(context, report);
  FillRanked(context, choices, result, report);
  if (report.ranked.empty()) FillMisses(context, choices, result, report);
  return report;
}

}  // namespace restow
