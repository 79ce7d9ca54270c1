// The answer of `compare`: two candidates beside one another.
#include <fmt/format.h>

#include "report/text.h"
#include "report/words.h"
#include "restow/base/units.h"
#include "restow/report/table.h"

namespace restow {
namespace {

using report::Align;
using report::Column;
using report::Ink;
using report::Row;
using report::Scale;

std::string Plus(const Scale& scale, double difference) {
  const std::string text = scale.Number(difference);
  if (difference > 0) return "+" + text;
  return difference == 0 ? "" : text;
}

// One row; `scale` holds for both sides and the difference.
Row Entry(const char* name, const Scale& scale, double a, double b, double difference, Ink ink) {
  return {{name, scale.Number(a), scale.Number(b), Plus(scale, difference)}, ink, ""};
}

std::vector<Column> Columns(const char* what, const char* unit) {
  return {{what, "", Align::kLeft, false},
          {"A", unit, Align::kRight, false},
          {"B", unit, Align::kRight, false},
          {"B - A", unit, Align::kRight, false}};
}

std::string MemoryTable(const Comparison& c, const TableStyle& style) {
  const Scale scale = report::SizeScale({c.a.peak, c.b.peak});
  std::vector<Row> rows;
  for (std::size_t i = 0; i < kMemoryTerms; ++i) {
    const double a = report::ValueOf(c.a.memory[i]), b = report::ValueOf(c.b.memory[i]);
    if (a == 0 && b == 0) continue;
    rows.push_back(Entry(Name(static_cast<MemoryTerm>(i)), scale, a, b,
                         report::ValueOf(c.memory_difference[i]), Ink::kPlain));
  }
  const double a = report::ValueOf(c.a.peak), b = report::ValueOf(c.b.peak);
  rows.push_back(Entry("peak", scale, a, b, b - a, Ink::kBold));
  return report::DrawTable(style, Columns("memory", scale.unit), rows);
}

std::string TimeTable(const Comparison& c, const TableStyle& style) {
  const Scale scale = report::TimeScale({c.a.step, c.b.step});
  std::vector<Row> rows;
  for (std::size_t i = 0; i < kTimeTerms; ++i) {
    const double a = c.a.time[i].value(), b = c.b.time[i].value();
    if (a == 0 && b == 0) continue;
    rows.push_back(Entry(Name(static_cast<TimeTerm>(i)), scale, a, b,
                         c.time_difference[i].value(), Ink::kPlain));
  }
  const double a = c.a.step.value(), b = c.b.step.value();
  rows.push_back(Entry("step", scale, a, b, b - a, Ink::kBold));
  return report::DrawTable(style, Columns("time", scale.unit), rows);
}

std::string Side(const Candidate& candidate, const std::string& name) {
  const std::string text = report::CandidateText(candidate);
  return (name.empty() ? text : name + ": " + text) + (candidate.fits ? "" : " (does not fit)");
}

std::string Outcome(const Comparison& c) {
  const double ratio = c.a.step / c.b.step;
  std::string speed = "B is as fast as A";
  if (ratio > 1.0005) speed = fmt::format("B is {:.2f}x as fast as A", ratio);
  if (ratio < 0.9995) speed = fmt::format("A is {:.2f}x as fast as B", 1 / ratio);
  return speed + fmt::format("; step {}, peak {}", report::Signed(c.b.step - c.a.step),
                             report::Signed(c.b.peak - c.a.peak));
}

}  // namespace

std::string DrawComparison(const Comparison& c, const TableStyle& style) {
  std::string text;
  if (!c.job_name.empty()) text += report::Paint(style, Ink::kBold, "job " + c.job_name) + "\n\n";
  text += report::Note(style, "A", Side(c.a, c.a_name));
  text += report::Note(style, "B", Side(c.b, c.b_name));
  text += report::Note(style, "so", Outcome(c));
  text += "\n" + report::Beside(MemoryTable(c, style), TimeTable(c, style), 6, style);
  text += "\n" + report::Note(style, "A peaks", report::Place(c.a.worst_stage, c.a.worst_phase));
  return text + report::Note(style, "B peaks", report::Place(c.b.worst_stage, c.b.worst_phase));
}

}  // namespace restow
