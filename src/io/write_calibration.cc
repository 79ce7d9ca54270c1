// A calibration as the file it is read from.
#include <fmt/format.h>

#include "restow/io/write.h"
#include "restow/schema/calibration.h"

namespace restow {
namespace {

constexpr const char* kHead =
    "# What is reached of the data sheet, and what software adds: every constant of the time "
    "model\n"
    "# and of what allocators hold beyond what is allocated.\n"
    "#\n"
    "# value     in the unit beside it\n"
    "# start     what was believed before the fit, from the source beside it\n"
    "# allowed   standard deviation of ln(value) about the start that the fit allowed; absent: "
    "never\n"
    "#           fitted\n"
    "# spread    standard deviation of ln(value) after the fit\n"
    "# rows      measured runs that the constant can change, and fitted_on where they come from;\n"
    "#           one that a single run can change is left at its start\n"
    "#\n"
    "# Constants are keyed by device, software and version, never by model or run. A constant that "
    "a\n"
    "# device lacks is taken from the device that `nearest` names for it (\"other\" where it "
    "names\n"
    "# none). `software` maps the start of a release's text (training.release, lower case, "
    "longest\n"
    "# match) to the software profile that prices it; without a match the framework decides.\n"
    "# `left_out`: errors of runs that a fit did not see, one model or source at a time.\n"
    "# Written by `restow calibrate`; docs/fidelity.md says how well it does.\n";

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

std::string LeftOutText(const LeftOut& left) {
  return fmt::format(
      "  - {{by: {}, groups: {}, runs: {}, median_abs_pct: {:.2f}, p95_abs_pct: {:.2f},\n"
      "     fitted_median_abs_pct: {:.2f}, fitted_p95_abs_pct: {:.2f}}}\n",
      left.by, left.groups, left.runs, left.median_abs_pct, left.p95_abs_pct,
      left.fitted_median_abs_pct, left.fitted_p95_abs_pct);
}

std::string ConstantText(const std::string& name, const Constant& c) {
  std::string text = fmt::format("  - {{name: {}, value: {:.6g}", Quoted(name), c.value);
  if (!c.unit.empty()) text += ", unit: " + Quoted(c.unit);
  if (c.allowed > 0) text += fmt::format(", start: {:.6g}, allowed: {:.3g}", c.start, c.allowed);
  if (c.spread > 0) text += fmt::format(", spread: {:.2g}", c.spread);
  if (c.rows > 0) text += fmt::format(", rows: {}", c.rows);
  text += ",\n     source: " + Quoted(c.source);
  if (!c.fitted_on.empty()) text += ",\n     fitted_on: " + Quoted(c.fitted_on);
  if (!c.note.empty()) text += ",\n     note: " + Quoted(c.note);
  return text + "}\n";
}

}  // namespace

std::string CalibrationText(const Calibration& c) {
  std::string text = kHead;
  text += fmt::format("id: {}\nrows: {}\n", Quoted(c.id), c.rows);
  if (!c.left_out.empty()) {
    text += "left_out:\n";
    for (const LeftOut& left : c.left_out) text += LeftOutText(left);
  }
  text += "nearest:\n";
  for (const auto& [device, other] : c.nearest) text += fmt::format("  {}: {}\n", device, other);
  text += "software:\n";
  for (const auto& [release, profile] : c.software) {
    text += fmt::format("  - {{release: {}, profile: {}}}\n", Quoted(release), profile);
  }
  text += "constants:\n";
  for (const auto& [name, constant] : c.constants) text += ConstantText(name, constant);
  return text;
}

}  // namespace restow
