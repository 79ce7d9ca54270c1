// What is reached of the data sheet: fitted and measured constants, each with its source.
//
// Constants are looked up by name ("matmul.h100.bf16"); the list of names, units and meanings is in
// presets/calibration.yaml. A constant never knows a model or a run.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace restow {

struct Constant {
  double value = 0;
  double spread = 0;   // standard deviation of ln(value) after the fit; 0: not fitted
  int rows = 0;        // measured runs behind it; 0: not fitted
  double start = 0;    // what was believed before any fit; 0: as `value`
  double allowed = 0;  // standard deviation of ln(value) about it before any fit; 0: never fitted
  std::string fitted_on;  // sources of those runs with their counts: "bloom 92, mpt 14"
  std::string unit, source, note;
};

// Errors of runs that a fit did not see, beside those of runs it saw.
struct LeftOut {
  std::string by;  // model, source
  int groups = 0, runs = 0;
  double median_abs_pct = 0, p95_abs_pct = 0;
  double fitted_median_abs_pct = 0, fitted_p95_abs_pct = 0;  // of the same runs, seen
};

struct Calibration {
  std::string id;                 // name shown in every report
  int rows = 0;                   // measured runs behind the whole
  std::vector<LeftOut> left_out;  // empty: not worked out
  std::map<std::string, Constant> constants;
  std::map<std::string, std::string> nearest;   // device whose constants stand in; "other": any
  std::map<std::string, std::string> software;  // start of a release's text, lower case -> profile

  // Throws kInternal when absent: a constant the code needs must ship.
  double at(const std::string& name) const;
  // `fallback` when absent.
  double Get(const std::string& name, double fallback) const;
  bool has(const std::string& name) const { return constants.count(name) != 0; }
};

}  // namespace restow
