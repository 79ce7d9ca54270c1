// What is reached of the data sheet: fitted and measured constants, each with its source.
//
// Constants are looked up by name ("matmul.h100.bf16"); the list of names, units and meanings is in
// presets/calibration.yaml. A constant never knows a model or a run.
#pragma once

#include <map>
#include <string>

namespace restow {

struct Constant {
  double value = 0;
  double spread = 0;   // standard deviation of ln(value); 0: not fitted
  int rows = 0;        // measured runs behind it; 0: not fitted
  std::string source;
};

struct Calibration {
  std::string id;  // name shown in every report
  int rows = 0;    // measured runs behind the whole
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
