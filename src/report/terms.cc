#include "report/terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/words.h"
#include "restow/base/text.h"
#include "restow/base/units.h"

namespace restow::report {
namespace {

constexpr std::size_t kLargestShown = 3;

std::string Share(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f}", 100 * part / whole) : "";
}

bool SameStage(const StagePeak& a, const StagePeak& b) {
  return a.peak == b.peak && a.phase == b.phase;
}

}  // namespace

std::string MemoryBlock(const Candidate& candidate, const TableStyle& style) {
  const Scale scale = SizeScale({candidate.peak});
  const double peak = ValueOf(candidate.peak);
  std::vector<Row> rows;
  for (int i = 0; i < kMemoryTerms; ++i) {
    const double bytes = ValueOf(candidate.memory[static_cast<std::size_t>(i)]);
    if (bytes == 0) continue;
    rows.push_back({{Name(static_cast<MemoryTerm>(i)), scale.Number(bytes), Share(bytes, peak)}});
  }
  rows.push_back({{"peak", scale.Number(peak), "100.0"}, Ink::kBold, ""});
  const std::vector<Column> columns = {{"memory, worst rank", "", Align::kLeft, false},
                                       {"size", scale.unit, Align::kRight, false},
                                       {"share", "%", Align::kRight, false}};
  return DrawTable(style, columns, rows);
}

std::string TimeBlock(const Candidate& candidate, const TableStyle& style) {
  const Scale scale = TimeScale({candidate.step});
  const double step = candidate.step.value();
  std::vector<Row> rows;
  for (int i = 0; i < kTimeTerms; ++i) {
    const double seconds = candidate.time[static_cast<std::size_t>(i)].value();
    const double hidden = candidate.hidden[static_cast<std::size_t>(i)].value();
    if (seconds == 0 && hidden == 0) continue;
    rows.push_back({{Name(static_cast<TimeTerm>(i)), scale.Number(seconds), Share(seconds, step),
                     hidden == 0 ? "" : scale.Number(hidden)}});
  }
  rows.push_back({{"step", scale.Number(step), "100.0", ""}, Ink::kBold, ""});
  const std::vector<Column> columns = {{"time of one step", "", Align::kLeft, false},
                                       {"time", scale.unit, Align::kRight, false},
                                       {"share", "%", Align::kRight, false},
                                       {"hidden", scale.unit, Align::kRight, false}};
  return DrawTable(style, columns, rows);
}

std::string StageBlock(const Candidate& candidate, const TableStyle& style) {
  const Scale scale = SizeScale({candidate.peak});
  const std::vector<StagePeak>& stages = candidate.ranks;
  std::vector<Row> rows;
  for (std::size_t first = 0; first < stages.size();) {
    std::size_t last = first;
    while (last + 1 < stages.size() && SameStage(stages[last + 1], stages[first])) ++last;
    const std::string name = first == last
                                 ? fmt::format("{}", stages[first].stage)
                                 : fmt::format("{}-{}", stages[first].stage, stages[last].stage);
    const Bytes left = candidate.limit - stages[first].peak;
    rows.push_back({{name, scale.Number(ValueOf(stages[first].peak)), Name(stages[first].phase),
                     scale.Number(ValueOf(left))},
                    left < Bytes() ? Ink::kBad : Ink::kPlain,
                    ""});
    first = last + 1;
  }
  const std::vector<Column> columns = {{"stage", "", Align::kLeft, false},
                                       {"peak", scale.unit, Align::kRight, false},
                                       {"in", "", Align::kLeft, false},
                                       {"below limit", scale.unit, Align::kRight, false}};
  return DrawTable(style, columns, rows);
}

std::string SubmoduleNotes(const Candidate& candidate, const TableStyle& style) {
  std::string text;
  for (const SubmoduleRecompute& part : candidate.submodules) {
    std::string line = fmt::format("{}: {}", part.name, Name(part.mode));
    if (!part.keeps.empty()) line += ", keeps " + JoinWords(part.keeps);
    text += Note(style, text.empty() ? "recompute" : "", line);
  }
  return text;
}

std::string LargestTerms(const Candidate& candidate) {
  std::vector<int> terms;
  for (int i = 0; i < kMemoryTerms; ++i) {
    if (candidate.memory[static_cast<std::size_t>(i)] > Bytes()) terms.push_back(i);
  }
  std::stable_sort(terms.begin(), terms.end(), [&](int a, int b) {
    return candidate.memory[static_cast<std::size_t>(a)] >
           candidate.memory[static_cast<std::size_t>(b)];
  });
  if (terms.size() > kLargestShown) terms.resize(kLargestShown);
  std::vector<std::string> words;
  for (const int term : terms) {
    words.push_back(fmt::format("{} {}", Name(static_cast<MemoryTerm>(term)),
                                FormatBytes(candidate.memory[static_cast<std::size_t>(term)])));
  }
  return JoinWords(words);
}

std::string OutsideText(const Candidate& candidate) {
  if (candidate.outside == Bytes()) return "";
  return fmt::format(", {} taken outside the allocator (communicators)",
                     FormatBytes(candidate.outside));
}

std::string SpeedLine(const Candidate& candidate) {
  return fmt::format("{}, {} tokens/s/device, MFU {:.1f} %", FormatSeconds(candidate.step),
                     FormatCount(std::llround(candidate.tokens_per_s_per_device)), candidate.mfu);
}

std::string FitLines(const Candidate& c, const TableStyle& style) {
  const Bytes left = c.limit - c.peak;
  const std::string verdict = c.fits ? fmt::format("yes, {} below the limit", FormatBytes(left))
                                     : fmt::format("NO, {} above the limit", FormatBytes(-left));
  std::string text = Note(style, "fits", Paint(style, c.fits ? Ink::kGood : Ink::kBad, verdict));
  text += Note(style, "peak",
               fmt::format("{} allocated on rank {}, {}", FormatBytes(c.peak), c.worst_rank,
                           Place(c.worst_stage, c.worst_phase)));
  text += Note(style, "limit",
               fmt::format("{}: {} of memory, {} of it kept free (--margin){}",
                           FormatBytes(c.limit), FormatBytes(c.capacity),
                           FormatBytes(c.capacity - c.limit - c.outside), OutsideText(c)));
  return text + Note(style, "reserved",
                     fmt::format("the allocator is expected to hold {} to {}",
                                 FormatBytes(c.reserved_low), FormatBytes(c.reserved_high)));
}

}  // namespace restow::report
