// The dimensions of the search by name: as lists to search and as the one value that runs today.
#pragma once

#include <string>
#include <vector>

#include "restow/io/document.h"
#include "restow/schema/search.h"
#include "restow/schema/strategy.h"

namespace restow {

// Largest degree, chunk count or micro-batch that is taken for meant.
inline constexpr int kLargestDegree = 1 << 20;

// A dimension whose values are whole numbers.
struct IntDimension {
  const char* name;
  Dimension<int> SearchSpace::*search;
  std::optional<int> CurrentStrategy::*current;
  int low;
  int high;
};
const std::vector<IntDimension>& IntDimensions();

// Every name that may stand before `=` in an argument or as a key of `search`, `margin` apart.
const std::vector<std::string>& DimensionNames();

// Reads the statement of the dimension `name` onto a space; null states nothing. `granularity` and
// `swap` have one value in this version and leave no trace. Errors: kBadInput, kUnsupported.
void ReadDimensionInto(const std::string& name, const Node& node, SearchSpace& space);

// Reads one value of the dimension `name` (any but recompute) onto a strategy.
void ReadCurrentInto(const std::string& name, const Node& node, CurrentStrategy& current);

// Schedules as files spell them. Errors: kUnsupported for those of later versions.
Schedule ReadSchedule(const Node& node);

}  // namespace restow
