// The answer of `price`: one candidate, term by term.
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

// What each part of a multimodal model does; nothing for other models.
std::string Submodules(const Candidate& candidate, const TableStyle& style) {
  std::string text;
  for (const SubmoduleRecompute& part : candidate.submodules) {
    std::string line = fmt::format("{}: {}", part.name, Name(part.mode));
    for (std::size_t i = 0; i < part.keeps.size(); ++i) {
      line += (i == 0 ? ", keeps " : ", ") + part.keeps[i];
    }
    text += Note(style, text.empty() ? "recompute" : "", line);
  }
  return text;
}

}  // namespace

std::string DrawPrice(const PriceReport& price, const TableStyle& style) {
  const Candidate& c = price.candidate;
  std::string text =
      report::Paint(style, Ink::kBold, report::ModelLine(price.job_name, price.model)) + "\n\n";
  text += Note(style, "layout", report::CandidateText(c));
  text += Submodules(c, style);
  text += Note(style, "step", report::SpeedLine(c));
  text += report::FitLines(c, style);
  if (price.refusal) {
    text += Note(style, "rule",
                 fmt::format("a search refuses it: {}: {}", price.refusal->rule,
                             price.refusal->detail));
  }
  if (!c.selective_note.empty()) text += Note(style, "selective", c.selective_note);
  text += "\n" + report::Beside(report::MemoryBlock(c, style), report::TimeBlock(c, style), 6, style);
  if (!c.ranks.empty()) text += "\n" + report::StageBlock(c, style);
  return text + "\n" +
         Note(style, "figures",
              fmt::format("calibration {} ({} measured runs), restow {}; each term is worked out in "
                          "docs/planner.md",
                          price.calibration_id, FormatCount(price.calibration_rows), price.version));
}

}  // namespace restow
