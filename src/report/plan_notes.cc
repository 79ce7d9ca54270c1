#include "report/plan_notes.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/terms.h"
#include "report/text.h"
#include "report/words.h"
#include "restow/base/units.h"

namespace restow::report {
namespace {

constexpr std::size_t kRulesShown = 5;

std::string Searched(const PlanReport& report) {
  const CandidateCounts& n = report.candidates;
  return fmt::format(
      "{} candidates in {}: {} priced, {} refused by a rule, {} discarded by a bound",
      FormatCount(n.total), FormatSeconds(report.elapsed), FormatCount(n.priced),
      FormatCount(n.refused), FormatCount(n.bounded));
}

std::string Rules(const PlanReport& report, const TableStyle& style) {
  std::vector<const Refusal*> rules;
  for (const Refusal& refusal : report.refused) rules.push_back(&refusal);
  std::stable_sort(rules.begin(), rules.end(),
                   [](const Refusal* a, const Refusal* b) { return a->count > b->count; });
  std::string text;
  for (std::size_t i = 0; i < std::min(rules.size(), kRulesShown); ++i) {
    const Refusal& r = *rules[i];
    text += Note(style, i == 0 ? "refused" : "",
                 fmt::format("{} {}: {}", FormatCount(r.count), r.rule, r.detail));
  }
  if (rules.size() > kRulesShown) {
    std::int64_t rest = 0;
    for (std::size_t i = kRulesShown; i < rules.size(); ++i) rest += rules[i]->count;
    text += Note(style, "",
                 fmt::format("{} by {} more rules; --json lists them all", FormatCount(rest),
                             rules.size() - kRulesShown));
  }
  return text;
}

std::string AgainstBest(const Candidate& current, const Candidate& best) {
  const double gain = current.step / best.step;
  const Bytes more = best.peak - current.peak;
  std::string text;
  if (gain > 1.0005) {
    text = fmt::format("the best is {:.2f}x as fast as today's setting ({} against {})", gain,
                       FormatSeconds(best.step), FormatSeconds(current.step));
  } else if (gain < 0.9995) {
    text = fmt::format("today's setting takes {}; what is searched here reaches {} at best",
                       FormatSeconds(current.step), FormatSeconds(best.step));
  } else {
    text = fmt::format("today's setting is as fast as the best ({})", FormatSeconds(current.step));
  }
  if (more == Bytes()) return text + " and peaks as high";
  return text + fmt::format(" and peaks {} {}", FormatBytes(more < Bytes() ? -more : more),
                            more < Bytes() ? "lower" : "higher");
}

std::string Current(const PlanReport& report) {
  std::string text;
  if (report.current) {
    const Candidate& current = *report.current;
    if (!report.ranked.empty()) text = AgainstBest(current, report.ranked.front());
    if (!current.fits) {
      if (!text.empty()) text += "; ";
      text += fmt::format("today's setting exceeds the limit by {}",
                          FormatBytes(current.peak - current.limit));
    }
  }
  if (!report.current_note.empty()) text += (text.empty() ? "" : "; ") + report.current_note;
  return text;
}

std::string Leaner(const PlanReport& report) {
  if (report.leaner.empty()) return "";
  const Candidate& least =
      *std::min_element(report.leaner.begin(), report.leaner.end(),
                        [](const Candidate& a, const Candidate& b) { return a.peak < b.peak; });
  std::string text = fmt::format("least memory: {}; {} at {}", CandidateText(least),
                                 FormatBytes(least.peak), FormatSeconds(least.step));
  if (report.leaner.size() > 1) {
    text += fmt::format(" ({} more between; --json lists them)", report.leaner.size() - 1);
  }
  return text;
}

std::string Memory(const Candidate& any) {
  return fmt::format("{} per device, {} of it kept free (--margin){}; margin: what the peak leaves",
                     FormatBytes(any.capacity), FormatBytes(any.capacity - any.limit - any.outside),
                     OutsideText(any));
}

std::string Peak(const Candidate& best) {
  return fmt::format("#1 peaks on rank {}, {}; most of it is {}", best.worst_rank,
                     Place(best.worst_stage, best.worst_phase), LargestTerms(best));
}

std::string Reserved(const Candidate& best) {
  const std::string held =
      fmt::format("for #1 the allocator is expected to hold {} to {}",
                  FormatBytes(best.reserved_low), FormatBytes(best.reserved_high));
  if (best.reserved_high <= best.capacity) return held;
  // The band grows with the peak, so the peak that leaves room is smaller in proportion.
  const double share =
      static_cast<double>(best.peak.value()) / static_cast<double>(best.reserved_high.value());
  const Bytes room = WholeBytes(static_cast<double>(best.capacity.value()) * (1 - share));
  return held + fmt::format(": it may run out; a margin of {} leaves room", FormatBytes(room));
}

std::string Figures(const PlanReport& report) {
  return fmt::format(
      "calibration {} ({} measured runs), restow {}; each term is worked out in "
      "docs/planner.md",
      report.calibration_id, FormatCount(report.calibration_rows), report.version);
}

}  // namespace

std::string PlanNotes(const PlanReport& report, const TableStyle& style) {
  std::string text;
  if (!report.ranked.empty()) {
    const Candidate& best = report.ranked.front();
    text += Note(style, "memory", Memory(best) + "; " + Reserved(best));
    text += Note(style, "peak", Peak(best));
    text += SubmoduleNotes(best, style);
    if (!best.selective_note.empty()) text += Note(style, "selective", best.selective_note);
    if (!report.pareto.empty()) {
      text += Note(style, "*", "nothing is both faster and smaller (step time against peak)");
    }
    text += Note(style, "leaner", Leaner(report));
  } else if (!report.nearest_misses.empty()) {
    text += Note(style, "memory", Memory(report.nearest_misses.front().candidate));
  }
  text += Note(style, "now", Current(report));
  text += Note(style, "searched", Searched(report));
  text += Rules(report, style);
  return text + Note(style, "figures", Figures(report));
}

}  // namespace restow::report
