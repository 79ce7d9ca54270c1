// A training run that somebody measured: one row of a table of runs (data/measured-runs.csv).
#pragma once

#include <map>
#include <string>

#include "restow/base/error.h"

namespace restow {

struct MeasuredRun {
  std::string id;                             // source prefix, dash, number
  SourcePosition where;                       // of the row
  std::map<std::string, std::string> fields;  // every column, trimmed; "" where nothing is stated
  // The column of that name as key=value pairs: what the software did, in words of its own.
  std::map<std::string, std::string> switches;

  // "" for a column that is empty or absent.
  const std::string& at(const std::string& column) const;
  // "" for a switch that is not stated.
  const std::string& Switch(const std::string& name) const;
  // Where it comes from: the id without its number.
  std::string Source() const;
};

}  // namespace restow
