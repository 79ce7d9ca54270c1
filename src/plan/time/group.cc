#include "plan/time/group.h"

#include <algorithm>

namespace restow::plan {
namespace {

// Ranks along each axis, indexed by Axis.
using Degrees = std::array<int, 5>;
static_assert(static_cast<int>(Axis::kTp) == 0 && static_cast<int>(Axis::kPp) == 4);

Degrees DenseDegrees(const MicroShape& s) { return {s.tp, s.cp, 1, s.dp, s.pp}; }

Degrees ExpertDegrees(const MicroShape& s) {
  return {s.etp, 1, s.ep, std::max(1, s.dp * s.cp * s.tp / (s.ep * s.etp)), s.pp};
}

GroupAxis AxisOf(const MicroShape& s, Axis axis, const Degrees& degrees) {
  int stride = 1;
  for (const Axis inner : s.order) {
    if (inner == axis) break;
    stride *= degrees[static_cast<std::size_t>(inner)];
  }
  return {degrees[static_cast<std::size_t>(axis)], stride};
}

RankGroup Single(const GroupAxis& axis) { return {{axis, GroupAxis{}}}; }

}  // namespace

int MembersInside(const RankGroup& group, int domain) {
  int members = 1;
  for (const GroupAxis& axis : group.axes) {
    if (axis.degree > 1) members *= std::min(axis.degree, std::max(1, domain / axis.stride));
  }
  return members;
}

RankGroup TensorGroup(const MicroShape& s) { return Single(AxisOf(s, Axis::kTp, DenseDegrees(s))); }
RankGroup ContextGroup(const MicroShape& s) {
  return Single(AxisOf(s, Axis::kCp, DenseDegrees(s)));
}
RankGroup PipelineGroup(const MicroShape& s) {
  return Single(AxisOf(s, Axis::kPp, DenseDegrees(s)));
}
RankGroup ExpertGroup(const MicroShape& s) {
  return Single(AxisOf(s, Axis::kEp, ExpertDegrees(s)));
}
RankGroup ExpertTensorGroup(const MicroShape& s) {
  return Single(AxisOf(s, Axis::kTp, ExpertDegrees(s)));
}
RankGroup ExpertDataGroup(const MicroShape& s) {
  return Single(AxisOf(s, Axis::kDp, ExpertDegrees(s)));
}

RankGroup DataGroup(const MicroShape& s) {
  const Degrees degrees = DenseDegrees(s);
  GroupAxis context = AxisOf(s, Axis::kCp, degrees);
  GroupAxis data = AxisOf(s, Axis::kDp, degrees);
  if (context.stride > data.stride) std::swap(context, data);
  return {{context, data}};
}

SplitGroups SplitInner(const RankGroup& group, int span) {
  SplitGroups split{group, group};
  const int first = std::max(1, std::min(span, group.axes[0].degree));
  const int second = std::max(1, std::min(span / first, group.axes[1].degree));
  const int inner[2] = {first, second};
  for (std::size_t i = 0; i < 2; ++i) {
    split.shard.axes[i].degree = inner[i];
    split.replicas.axes[i].degree = std::max(1, group.axes[i].degree / inner[i]);
    split.replicas.axes[i].stride = group.axes[i].stride * inner[i];
  }
  return split;
}

}  // namespace restow::plan
