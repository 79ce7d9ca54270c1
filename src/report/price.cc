// One candidate, term by term: alone, and as the answer of `price`.
#include <fmt/format.h>

#include "report/terms.h"
#include "report/text.h"
#include "report/words.h"
#include "restow/base/units.h"
#include "restow/report/table.h"

namespace restow {

using report::Ink;
using report::Note;

namespace {

// `rule` is the note of a rule that the candidate breaks, or "".
std::string Notes(const Candidate& c, const TableStyle& style, const std::string& rule) {
  std::string text = Note(style, "layout", report::CandidateText(c));
  text += report::SubmoduleNotes(c, style);
  text += Note(style, "step", report::SpeedLine(c));
  text += report::FitLines(c, style) + rule;
  if (!c.selective_note.empty()) text += Note(style, "selective", c.selective_note);
  return text;
}

std::string Tables(const Candidate& c, const TableStyle& style) {
  const std::string text =
      report::Beside(report::MemoryBlock(c, style), report::TimeBlock(c, style), 6, style);
  return c.ranks.empty() ? text : text + "\n" + report::StageBlock(c, style);
}

}  // namespace

std::string DrawCandidate(const Candidate& candidate, const TableStyle& style) {
  const std::string rank =
      candidate.rank > 0 ? Note(style, "rank", fmt::format("{}", candidate.rank)) : "";
  return rank + Notes(candidate, style, "") + "\n" + Tables(candidate, style);
}

std::string DrawPrice(const PriceReport& price, const TableStyle& style) {
  std::string rule;
  if (price.refusal) {
    rule = Note(
        style, "rule",
        fmt::format("a search refuses it: {}: {}", price.refusal->rule, price.refusal->detail));
  }
  return report::Paint(style, Ink::kBold, report::ModelLine(price.job_name, price.model)) + "\n\n" +
         Notes(price.candidate, style, rule) + "\n" + Tables(price.candidate, style) + "\n" +
         Note(
             style, "figures",
             fmt::format("calibration {} ({} measured runs), restow {}; each term is worked out in "
                         "docs/planner.md",
                         price.calibration_id, FormatCount(price.calibration_rows), price.version));
}

}  // namespace restow
