// What pricing one job needs again and again, made once. Immutable; shared by threads.
#pragma once

#include "plan/memory/software.h"
#include "plan/shape.h"
#include "plan/time/time.h"
#include "restow/schema/job.h"

namespace restow::plan {

struct Context {
  explicit Context(const Job& j) : job(j), kinds(j.model), software(j), machine(j) {}

  const Job& job;
  KindTable kinds;
  MemorySoftware software;
  Machine machine;
};

// The part of a shape that layers see: where groups lie outside tp, cp and ep matters to them only
// under an order other than the default, so equal layers get equal shapes.
MicroShape LayerShape(const Layout& layout);

// Mode of what belongs to no single layer (multi-token prediction, towers): the plan's own, or that
// of the last layer.
Recompute EdgeMode(const RecomputePlan& plan);

}  // namespace restow::plan
