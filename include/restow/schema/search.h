// What a search may vary. Every dimension is one value, a list, or `auto`.
#pragma once

#include <optional>
#include <vector>

#include "restow/base/error.h"
#include "restow/base/quantity.h"
#include "restow/schema/strategy.h"

namespace restow {

// Unstated, `auto`, or the values allowed, each once, in the order stated.
template <class T>
struct Dimension {
  bool stated = false;
  bool automatic = false;  // only when stated
  std::vector<T> values;   // only when stated and not automatic
  SourcePosition where;    // of the statement

  bool one_value() const { return stated && !automatic && values.size() == 1; }
};

struct SearchSpace {
  Dimension<int> tp, cp, pp, vpp, ep, etp, dp, micro_batch, zero, zero_span;
  Dimension<bool> sp;
  Dimension<CpKind> cp_kind;
  Dimension<Schedule> schedule;
  Dimension<RankOrder> order;
  // `auto` is spelt out as off, selective, full when read; unstated keeps the job's own recompute.
  Dimension<Recompute> recompute;
  std::optional<Bytes> margin;  // kept free below the device's memory; default 4 % of it
};

}  // namespace restow
