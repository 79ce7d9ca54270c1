// All layouts of a job's search space, lazily, in a fixed order, each once.
//
// Order, outermost first: order, tp, sp, cp, cp_kind, ep, etp | pp (dp follows), micro_batch,
// schedule, vpp, zero, zero_span; numbers ascending where automatic, as stated otherwise. Twins
// (layouts that differ only where the difference has no effect: sp with tp 1, the kind of a cp of
// 1, sharding over a single rank, GPipe with one micro-batch) are left out, not counted.
//
// What `auto` means per dimension: tp, cp, pp: every divisor of the devices left; dp: what remains;
// ep: divisors of the devices up to the experts; etp: divisors of tp; sp: off and, with tp above 1,
// on; cp_kind: ring and all-to-all; micro_batch: divisors of the batch of a replica; schedule: 1f1b
// and interleaved (GPipe is never faster and holds more: only when stated); vpp: 1 to 8 chunks;
// zero: those of 0 to 3 that the framework runs; zero_span: the whole group, and groups that just
// fill a level of the interconnect; order: the default, and the default with dp outside pp.
#pragma once

#include <vector>

#include "plan/rules/rules.h"
#include "plan/space/choices.h"
#include "restow/schema/job.h"

namespace restow::plan {

// Everything fixed down to the experts. Units are independent: the grain of parallel work.
struct SearchUnit {
  Layout layout;
};

struct StateChoice {
  int zero = 0;
  int span = 0;
};

class LayoutVisitor {
 public:
  virtual ~LayoutVisitor() = default;
  // A partial layout that breaks a rule; everything below it is skipped.
  virtual void Refuse(const Rule& rule, const Layout& layout) = 0;
  // A layout complete but for zero and zero_span, and the states it can take; never empty.
  virtual void Visit(const Layout& layout, const std::vector<StateChoice>& states) = 0;
};

// Units in order; what is refused above them goes to the visitor.
std::vector<SearchUnit> EnumerateUnits(const Job& job, const Choices& choices,
                                       LayoutVisitor& visitor);
// All layouts of one unit.
void EnumerateUnit(const Job& job, const Choices& choices, const SearchUnit& unit,
                   LayoutVisitor& visitor);

}  // namespace restow::plan
