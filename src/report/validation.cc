// The scoreboard, and one measured run shown whole.
#include "restow/report/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/text.h"

namespace restow {
namespace {

using report::Align;
using report::Column;
using report::Ink;
using report::Note;
using report::Row;

std::string Pct(double value) { return fmt::format("{:.1f}", value); }
std::string Signed(double value) { return fmt::format("{:+.1f}", value); }

void AddFigures(const ErrorFigures& figures, std::vector<std::string>* cells) {
  if (figures.n == 0) {
    cells->insert(cells->end(), {"", "", "", ""});
    return;
  }
  cells->insert(cells->end(), {fmt::format("{}", figures.n), Pct(figures.median_abs_pct),
                               Pct(figures.p95_abs_pct), Signed(figures.bias_pct)});
}

std::string DrawGroups(const Validation& v, const TableStyle& style) {
  std::vector<Column> columns = {{v.grouped_by, "", Align::kLeft}};
  for (const char* quantity : {"memory", "time"}) {
    columns.push_back({quantity, "runs"});
    columns.push_back({"median", "%"});
    columns.push_back({"p95", "%"});
    columns.push_back({"bias", "%"});
  }
  std::vector<Row> rows;
  const auto add = [&rows](const std::string& name, const ErrorFigures& memory,
                           const ErrorFigures& time, Ink ink) {
    std::vector<std::string> cells = {name.substr(0, 34)};
    AddFigures(memory, &cells);
    AddFigures(time, &cells);
    rows.push_back({cells, ink});
  };
  for (const ErrorGroup& group : v.groups) add(group.name, group.memory, group.time, Ink::kPlain);
  add("all", v.memory, v.time, Ink::kBold);
  return DrawTable(style, columns, rows);
}

std::string DrawSweeps(const Validation& v, const TableStyle& style) {
  const std::vector<Column> columns = {{"sweep", "", Align::kLeft, true},
                                       {"runs", ""},
                                       {"tau", ""},
                                       {"regret", "%"},
                                       {"spread", "x"}};
  std::vector<Row> rows;
  for (const Sweep& s : v.sweeps) {
    rows.push_back({{s.name, fmt::format("{}", s.runs), fmt::format("{:.2f}", s.tau),
                     Pct(s.regret_pct), fmt::format("{:.2f}", s.spread)}});
  }
  return rows.empty() ? "" : DrawTable(style, columns, rows);
}

std::string Figure(const RunScore& score, double value) {
  return score.quantity == RunQuantity::kMemory ? fmt::format("{:.2f} GiB", value)
                                                : fmt::format("{:.4g} s", value);
}

std::string DrawScores(const std::vector<RunScore>& scores, const TableStyle& style) {
  const std::vector<Column> columns = {
      {"run", "", Align::kLeft},  {"model", "", Align::kLeft, true},
      {"kind", "", Align::kLeft}, {"measured", ""},
      {"predicted", ""},          {"error", "%"}};
  std::vector<Row> rows;
  for (const RunScore& s : scores) {
    const std::string kind =
        s.quantity == RunQuantity::kTime ? "time" : std::string(Name(s.instrument));
    rows.push_back(
        {{s.id, s.model, kind, Figure(s, s.measured), Figure(s, s.predicted), Signed(s.pct())}});
  }
  return rows.empty() ? "" : DrawTable(style, columns, rows);
}

std::string DrawUnscorable(const Validation& v, const TableStyle& style) {
  const std::vector<Column> columns = {
      {"not scored, because", "", Align::kLeft, true}, {"memory", "runs"}, {"time", "runs"}};
  std::vector<Row> rows;
  for (const UnscorableReason& r : v.unscorable) {
    const auto count = [](int n) { return n > 0 ? fmt::format("{}", n) : std::string(); };
    rows.push_back({{r.reason, count(r.memory_rows), count(r.time_rows)}});
  }
  return rows.empty() ? "" : DrawTable(style, columns, rows);
}

std::string Ids(const std::vector<std::string>& ids) {
  return ids.empty() ? "" : fmt::format(" ({})", fmt::join(ids, ", "));
}

std::string DrawVerdicts(const Validation& v, const TableStyle& style) {
  std::string text;
  text += Note(style, "memory",
               fmt::format("{} runs out of memory known, {} of them called fitting{}; {} that ran, "
                           "{} of them called too large{}",
                           v.oom_known, v.oom_called_fitting, Ids(v.called_fitting), v.fits_known,
                           v.fits_called_oom, Ids(v.called_oom)));
  if (!v.sweeps.empty()) {
    text += Note(style, "ranking",
                 fmt::format("{} sweeps of six runs or more: tau {:.2f} at the median, {:.2f} at "
                             "worst; regret {:.1f} % at the median, {:.1f} % at worst",
                             v.sweeps.size(), v.tau_median, v.tau_min, v.regret_median_pct,
                             v.regret_max_pct));
  }
  text += Note(style, "constants",
               fmt::format("{}, fitted on {} runs", v.calibration_id, v.calibration_rows));
  for (const LeftOut& left : v.left_out) {
    text += Note(style, "",
                 fmt::format("times with one {} at a time left out of the fit: median {:.2f} % "
                             "(seen {:.2f} %), p95 {:.1f} % (seen {:.1f} %)",
                             left.by, left.median_abs_pct, left.fitted_median_abs_pct,
                             left.p95_abs_pct, left.fitted_p95_abs_pct));
  }
  return text;
}

}  // namespace

std::string DrawValidation(const Validation& v, const TableStyle& style) {
  std::string text = fmt::format("{} measured runs\n\n", v.rows);
  text += DrawGroups(v, style) + "\n";
  text += DrawVerdicts(v, style) + "\n";
  const std::string sweeps = DrawSweeps(v, style);
  if (!sweeps.empty()) text += sweeps + "\n";
  if (!v.worst.empty()) text += "furthest off:\n" + DrawScores(v.worst, style) + "\n";
  return text + DrawUnscorable(v, style);
}

std::string DrawRun(const RunReport& run, const TableStyle& style) {
  std::string text = run.job_text.empty() ? run.id + "\n" : run.job_text;
  text += "\n";
  for (const std::string& note : run.assumed) text += Note(style, "assumed", note);
  if (!run.why_not_memory.empty())
    text += Note(style, "memory", "not scored: " + run.why_not_memory);
  if (!run.why_not_time.empty()) text += Note(style, "time", "not scored: " + run.why_not_time);
  if (!run.scores.empty()) text += "\n" + DrawScores(run.scores, style);
  if (!run.ranks.empty()) {
    std::vector<Row> rows;
    for (std::size_t s = 0; s < run.ranks.size(); ++s) {
      const auto& [measured, predicted] = run.ranks[s];
      rows.push_back(
          {{fmt::format("{}", s), fmt::format("{:.2f}", measured), fmt::format("{:.2f}", predicted),
            Signed(100 * (predicted / measured - 1))}});
    }
    text +=
        "\n" + DrawTable(style,
                         {{"stage", ""}, {"measured", "GiB"}, {"predicted", "GiB"}, {"error", "%"}},
                         rows);
  }
  if (run.price) text += "\n" + DrawPrice(*run.price, style);
  return text;
}

std::string DrawCalibration(const CalibrationReport& report, const TableStyle& style) {
  const std::vector<Column> columns = {
      {"constant", "", Align::kLeft}, {"before", ""}, {"fitted", ""}, {"spread", "%"}, {"runs", ""},
      {"", "", Align::kLeft, true}};
  std::vector<Row> rows;
  for (const FittedConstant& c : report.constants) {
    rows.push_back({{c.name, fmt::format("{:.4g}", c.before), fmt::format("{:.4g}", c.value),
                     Pct(100 * c.spread), fmt::format("{}", c.rows), c.remark},
                    c.determined ? Ink::kPlain : Ink::kDim});
  }
  std::string text = DrawTable(style, columns, rows) + "\n";
  const auto line = [&](const char* label, const ErrorFigures& before, const ErrorFigures& after) {
    if (after.n == 0) return;
    text +=
        Note(style, label,
             fmt::format("{} figures: median error {:.2f} % before, {:.2f} % fitted; p95 {:.1f} % "
                         "before, {:.1f} % fitted",
                         after.n, before.median_abs_pct, after.median_abs_pct, before.p95_abs_pct,
                         after.p95_abs_pct));
  };
  line("time", report.time_before, report.time);
  line("memory", report.memory_before, report.memory);
  for (const LeftOut& left : report.calibration.left_out) {
    text += Note(style, "left out",
                 fmt::format("one {} at a time ({}): median {:.2f} % (seen {:.2f} %), p95 {:.1f} % "
                             "(seen {:.1f} %)",
                             left.by, left.groups, left.median_abs_pct, left.fitted_median_abs_pct,
                             left.p95_abs_pct, left.fitted_p95_abs_pct));
  }
  return text;
}

std::string ValidationCsv(const Validation& v) {
  std::string text = "id,kind,instrument,device,measured,predicted,pct\n";
  for (const RunScore& s : v.scores) {
    text += fmt::format("{},{},{},{},{},{},{}\n", s.id, Name(s.quantity),
                        s.quantity == RunQuantity::kMemory ? Name(s.instrument) : "", s.device,
                        s.measured, s.predicted, s.pct());
  }
  return text;
}

}  // namespace restow
