// Why a candidate was refused, lost, or wins.
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

constexpr int kNearest = 3;

std::string NearestText(const Explanation& explanation) {
  if (explanation.nearest.empty())
    return "No change of one or two dimensions within the search fits.";
  const NearestChange& nearest = explanation.nearest.front();
  return fmt::format("Nearest change that fits: {}; it takes {} a step at {} peak.", nearest.change,
                     FormatSeconds(nearest.candidate.step), FormatBytes(nearest.candidate.peak));
}

void ExplainMemory(const Candidate& candidate, Explanation& explanation) {
  const auto largest = std::max_element(candidate.memory.begin(), candidate.memory.end());
  const auto term = static_cast<MemoryTerm>(largest - candidate.memory.begin());
  const Bytes over = candidate.peak - candidate.limit;
  explanation.verdict = Verdict::kRefused;
  explanation.over = {term, over};
  explanation.summary = fmt::format(
      "Does not fit: stage {} peaks at {} in {}, {} over the {} that may be used ({} less the "
      "margin). "
      "Its largest term is {} with {}.",
      candidate.worst_stage, FormatBytes(candidate.peak), Name(candidate.worst_phase),
      FormatBytes(over), FormatBytes(candidate.limit), FormatBytes(candidate.capacity), Name(term),
      FormatBytes(*largest));
}

// The time terms by which the winner is faster, largest first, as words.
std::string WhereTimeGoes(const Candidate& loser, const Candidate& winner) {
  std::vector<std::pair<double, std::string>> terms;
  for (int t = 0; t < kTimeTerms; ++t) {
    const auto at = static_cast<std::size_t>(t);
    const double more = (loser.time[at] - winner.time[at]).value();
    if (more > 0.01 * loser.step.value()) terms.push_back({-more, Name(static_cast<TimeTerm>(t))});
  }
  std::sort(terms.begin(), terms.end());
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, terms.size()); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", terms[i].second,
                        FormatSeconds(Seconds(-terms[i].first)));
  }
  return text;
}

void ExplainTime(const Candidate& candidate, Explanation& explanation) {
  const Candidate& best = *explanation.best;
  if (best.layout == candidate.layout && best.recompute == candidate.recompute) {
    explanation.verdict = Verdict::kWins;
    explanation.summary = fmt::format("Wins: nothing that fits is faster than its {} a step.",
                                      FormatSeconds(candidate.step));
    return;
  }
  explanation.verdict = Verdict::kLoses;
  const std::string where = WhereTimeGoes(candidate, best);
  explanation.summary = fmt::format(
      "Fits, but takes {} a step where the best takes {} ({:.2f} times as long).{}",
      FormatSeconds(candidate.step), FormatSeconds(best.step), candidate.step / best.step,
      where.empty() ? "" : " It spends more on: " + where + ".");
}

// A mode that the search leaves out is refused by the job itself.
bool Allowed(const Choices& choices, const OneCandidate& one) {
  return std::find(choices.recompute.begin(), choices.recompute.end(), one.recompute) !=
         choices.recompute.end();
}

std::optional<Candidate> BestOf(const Context& context, const Choices& choices,
                                SearchOptions options) {
  options.top = 1;
  const plan::SearchResult result = plan::Search(context, choices, options);
  if (result.top.sorted().empty()) return std::nullopt;
  const plan::Scored& best = result.top.sorted().front();
  return plan::PriceCandidate(context, best.layout,
                              choices.recompute[static_cast<std::size_t>(best.plan)]);
}

}  // namespace

Explanation Explain(const Job& job, const OneCandidate& one, const SearchOptions& options) {
  const Context context(job);
  const Choices choices = plan::ResolveChoices(job);
  Explanation explanation;
  explanation.version = kVersion;
  explanation.job_digest = job.digest;
  explanation.job_name = job.name;
  explanation.layout = one.layout;
  explanation.recompute = one.recompute;
  explanation.best = BestOf(context, choices, options);
  explanation.rule = plan::CheckRules(job, one.layout);
  if (explanation.rule) {
    explanation.verdict = Verdict::kRefused;
    explanation.summary = fmt::format("Refused by the rule {}: {}.", explanation.rule->rule,
                                      explanation.rule->detail);
  } else {
    explanation.candidate = plan::PriceCandidate(context, one.layout, one.recompute);
    if (!explanation.candidate->fits) {
      ExplainMemory(*explanation.candidate, explanation);
    } else if (explanation.best) {
      ExplainTime(*explanation.candidate, explanation);
    }
  }
  if (!Allowed(choices, one)) {
    explanation.summary += " The search leaves this recompute out, so it is never proposed.";
  }
  if (explanation.verdict == Verdict::kRefused) {
    explanation.nearest = plan::FittingChanges(context, choices, one, kNearest);
    explanation.summary += " " + NearestText(explanation);
  }
  return explanation;
}

}  // namespace restow
