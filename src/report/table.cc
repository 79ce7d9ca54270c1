// The answer of `plan`: the ranked table, or the nearest misses in its place.
#include "restow/report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/plan_notes.h"
#include "report/text.h"
#include "report/words.h"
#include "restow/base/units.h"

namespace restow {
namespace {

using report::Align;
using report::Column;
using report::Ink;
using report::Row;
using report::Scale;

// Units that hold for every row of one table.
struct Scales {
  Scale time, size;
};

Scales ScalesOf(const std::vector<const Candidate*>& candidates) {
  std::vector<Seconds> times;
  std::vector<Bytes> sizes;
  for (const Candidate* candidate : candidates) {
    times.push_back(candidate->step);
    sizes.push_back(candidate->peak);
  }
  return {report::TimeScale(times), report::SizeScale(sizes)};
}

std::vector<Column> Columns(const Scales& scales, const char* last) {
  return {{"#", "", Align::kRight, false},
          {"layout", "", Align::kLeft, true},
          {"recompute", "", Align::kLeft, false},
          {"step", scales.time.unit, Align::kRight, false},
          {"tokens/s", "/device", Align::kRight, false},
          {"MFU", "%", Align::kRight, false},
          {"peak", scales.size.unit, Align::kRight, false},
          {"at", "stage phase", Align::kLeft, false},
          {last, scales.size.unit, Align::kRight, false}};
}

std::vector<std::string> Cells(const Candidate& c, const Scales& scales, const std::string& label,
                               Bytes last) {
  return {label,
          LayoutText(c.layout),
          RecomputeText(c.recompute),
          scales.time.Number(c.step.value()),
          FormatCount(std::llround(c.tokens_per_s_per_device)),
          fmt::format("{:.1f}", c.mfu),
          scales.size.Number(report::ValueOf(c.peak)),
          fmt::format("{} {}", c.worst_stage, report::ShortPhase(c.worst_phase)),
          scales.size.Number(report::ValueOf(last))};
}

bool OnPareto(const PlanReport& report, std::size_t index) {
  return std::find(report.pareto.begin(), report.pareto.end(), static_cast<int>(index)) !=
         report.pareto.end();
}

std::string DrawRanked(const PlanReport& report, const TableStyle& style) {
  std::vector<const Candidate*> all;
  for (const Candidate& candidate : report.ranked) all.push_back(&candidate);
  if (report.current) all.push_back(&*report.current);
  const Scales scales = ScalesOf(all);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < report.ranked.size(); ++i) {
    const Candidate& c = report.ranked[i];
    const std::string label = fmt::format("{}{}", c.rank, OnPareto(report, i) ? "*" : " ");
    rows.push_back(
        {Cells(c, scales, label, c.capacity - c.peak), i == 0 ? Ink::kGood : Ink::kPlain, ""});
  }
  if (report.current) {
    const Candidate& c = *report.current;
    rows.push_back({Cells(c, scales, "now ", c.capacity - c.peak), Ink::kWarn, ""});
  }
  return report::DrawTable(style, Columns(scales, "margin"), rows);
}

std::string DrawMisses(const PlanReport& report, const TableStyle& style) {
  std::vector<const Candidate*> all;
  for (const NearestMiss& miss : report.nearest_misses) all.push_back(&miss.candidate);
  if (all.empty()) return "";
  const Scales scales = ScalesOf(all);
  std::vector<Row> rows;
  for (const NearestMiss& miss : report.nearest_misses) {
    const std::string label = fmt::format("{}", rows.size() + 1);
    Row row{Cells(miss.candidate, scales, label, miss.shortfall), Ink::kPlain, ""};
    if (!miss.remedy.empty()) row.below = "would fit with: " + miss.remedy;
    rows.push_back(row);
  }
  return report::DrawTable(style, Columns(scales, "short by"), rows);
}

// Of the layouts shown; 0 when there are none.
int Devices(const PlanReport& report) {
  const Candidate* any = nullptr;
  if (!report.ranked.empty()) any = &report.ranked.front();
  if (any == nullptr && !report.nearest_misses.empty()) {
    any = &report.nearest_misses.front().candidate;
  }
  if (any == nullptr) return 0;
  const Layout& l = any->layout;
  return l.tp * l.cp * l.pp * l.dp;
}

std::string Headline(const PlanReport& report, const TableStyle& style) {
  std::string job = report::ModelLine(report.job_name, report.model);
  if (Devices(report) > 0) job += fmt::format(", {} devices", FormatCount(Devices(report)));
  std::string text = report::Paint(style, Ink::kBold, job) + "\n";
  if (!report.complete) {
    text += report::Paint(style, Ink::kWarn, "INCOMPLETE: interrupted; this is the best so far.") +
            "\n";
  }
  if (!report.ranked.empty()) return text + "\n";
  if (report.complete) {
    text += report::Paint(style, Ink::kBad,
                          report.nearest_misses.empty()
                              ? "Nothing fits: no candidate passes every rule."
                              : "Nothing fits. The nearest misses:");
  } else {
    text += report::Paint(style, Ink::kBad, "Nothing that fits was found yet.");
  }
  return text + "\n\n";
}

}  // namespace

std::string DrawPlan(const PlanReport& report, const TableStyle& style) {
  std::string text = Headline(report, style);
  text += report.ranked.empty() ? DrawMisses(report, style) : DrawRanked(report, style);
  if (!report.ranked.empty() || !report.nearest_misses.empty()) text += "\n";
  return text + report::PlanNotes(report, style);
}

}  // namespace restow
