// A whole question: model, cluster, training, what runs today, what may vary. A value: the planner
// reads it and never changes it. After Validate it can be trusted.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "restow/base/error.h"
#include "restow/schema/calibration.h"
#include "restow/schema/cluster.h"
#include "restow/schema/model.h"
#include "restow/schema/search.h"
#include "restow/schema/strategy.h"
#include "restow/schema/training.h"

namespace restow {

struct Job {
  std::string name;    // file stem
  std::string digest;  // of everything read, 16 hexadecimal digits
  Model model;
  Cluster cluster;
  Training training;
  std::optional<CurrentStrategy> current;
  SearchSpace search;
  Calibration calibration;
  std::map<std::string, SourcePosition> where;  // field path ("training.sequence") -> position
  std::vector<FieldNote> unknown;               // fields no reader knew, besides the model's
  std::vector<FieldNote> notes;                 // what a reader assumed, or read without pricing it

  // Position of a field, or of its nearest stated parent.
  SourcePosition At(const std::string& path) const;
  // Bytes kept free: the stated margin or 4 % of the device's memory.
  Bytes Margin() const;
};

// Checks across fields, once. Throws kBadInput with position, value and remedy.
void Validate(const Job& job);
// Checks that the search space holds anything: degrees that divide the devices, a batch that
// divides, experts that can be placed. Throws kBadInput.
void ValidateSearch(const Job& job);

}  // namespace restow
