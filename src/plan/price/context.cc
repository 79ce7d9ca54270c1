#include "plan/price/context.h"

namespace restow::plan {

MicroShape LayerShape(const Layout& layout) {
  MicroShape shape = ShapeOf(layout);
  if (layout.order == kDefaultOrder) shape.dp = shape.pp = 1;
  return shape;
}

Recompute EdgeMode(const RecomputePlan& plan) {
  return plan.uniform() ? plan.mode : plan.layers.back();
}

}  // namespace restow::plan
