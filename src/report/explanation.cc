// The answer of `explain`: why a candidate was refused or lost, and what would help.
#include <fmt/format.h>

#include "report/terms.h"
#include "report/text.h"
#include "report/words.h"
#include "restow/base/text.h"
#include "restow/base/units.h"
#include "restow/report/table.h"

namespace restow {
namespace {

using report::Align;
using report::Column;
using report::Ink;
using report::Note;
using report::Row;
using report::Scale;

std::string VerdictText(const Explanation& e, const TableStyle& style) {
  const Ink ink = e.verdict == Verdict::kWins    ? Ink::kGood
                  : e.verdict == Verdict::kLoses ? Ink::kWarn
                                                 : Ink::kBad;
  return Note(style, "verdict", report::Paint(style, ink, Name(e.verdict)));
}

std::string RuleText(const Refusal& rule, const TableStyle& style) {
  std::vector<std::string> numbers;
  for (const auto& [name, value] : rule.numbers) {
    numbers.push_back(fmt::format("{} {}", name, FormatCount(value)));
  }
  std::string text = rule.rule + ": " + rule.detail;
  if (!numbers.empty()) text += " (" + JoinWords(numbers) + ")";
  return Note(style, "rule", text);
}

std::string OverText(const Explanation& e, const TableStyle& style) {
  std::string text = fmt::format("{} over the limit; the largest term is {}",
                                 FormatBytes(e.over->second), Name(e.over->first));
  if (e.candidate) {
    const Bytes term = e.candidate->memory[static_cast<std::size_t>(e.over->first)];
    text += fmt::format(" with {}", FormatBytes(term));
  }
  return Note(style, "over", text);
}

// The candidate, what wins instead, and the nearest changes, in one table.
std::string PriceTable(const Explanation& e, const TableStyle& style) {
  std::vector<std::pair<std::string, const Candidate*>> entries;
  if (e.candidate) entries.emplace_back("this one", &*e.candidate);
  for (const NearestChange& nearest : e.nearest) entries.emplace_back(nearest.change, &nearest.candidate);
  if (e.best) entries.emplace_back("best: " + LayoutText(e.best->layout) + ", " +
                                       RecomputeText(e.best->recompute),
                                   &*e.best);
  if (entries.empty()) return "";
  std::vector<Seconds> times;
  std::vector<Bytes> sizes;
  for (const auto& [what, candidate] : entries) {
    times.push_back(candidate->step);
    sizes.push_back(candidate->peak);
  }
  const Scale time = report::TimeScale(times), size = report::SizeScale(sizes);
  std::vector<Row> rows;
  for (const auto& [what, c] : entries) {
    rows.push_back({{what, time.Number(c->step.value()), fmt::format("{:.1f}", c->mfu),
                     size.Number(report::ValueOf(c->peak)),
                     size.Number(report::ValueOf(c->limit - c->peak)), c->fits ? "yes" : "NO"},
                    Ink::kPlain,
                    ""});
  }
  const std::vector<Column> columns = {{"change", "", Align::kLeft, true},
                                       {"step", time.unit, Align::kRight, false},
                                       {"MFU", "%", Align::kRight, false},
                                       {"peak", size.unit, Align::kRight, false},
                                       {"below limit", size.unit, Align::kRight, false},
                                       {"fits", "", Align::kLeft, false}};
  return "\n" + report::DrawTable(style, columns, rows);
}

}  // namespace

std::string DrawExplanation(const Explanation& e, const TableStyle& style) {
  std::string text;
  if (!e.job_name.empty()) text += report::Paint(style, Ink::kBold, "job " + e.job_name) + "\n\n";
  const std::string what = e.candidate ? report::CandidateText(*e.candidate)
                                       : LayoutText(e.layout) + ", recompute " +
                                             RecomputeText(e.recompute);
  text += Note(style, "layout", what) + VerdictText(e, style);
  if (e.rule) text += RuleText(*e.rule, style);
  if (e.over) text += OverText(e, style);
  text += Note(style, "why", e.summary);
  if (e.candidate) {
    text += Note(style, "step", report::SpeedLine(*e.candidate));
    text += report::FitLines(*e.candidate, style);
    if (!e.candidate->selective_note.empty()) {
      text += Note(style, "selective", e.candidate->selective_note);
    }
  }
  return text + PriceTable(e, style);
}

}  // namespace restow
