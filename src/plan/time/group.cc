#include "plan/time/group.h"

#include <algorithm>

namespace restow::plan {
namespace {

int DenseDegree(const MicroShape& s, Axis axis) {
  switch (axis) {
    case Axis::kTp:
      return s.tp;
    case Axis::kCp:
      return s.cp;
    case Axis::kDp:
      return s.dp;
    case Axis::kPp:
      return s.pp;
    case Axis::kEp:
      return 1;
  }
  return 1;
}

int ExpertDegree(const MicroShape& s, Axis axis) {
  switch (axis) {
    case Axis::kTp:
      return s.etp;
    case Axis::kEp:
      return s.ep;
    case Axis::kDp:
      return std::max(1, s.dp * s.cp * s.tp / (s.ep * s.etp));
    case Axis::kPp:
      return s.pp;
    case Axis::kCp:
      return 1;
  }
  return 1;
}

template <class Degree>
GroupAxis AxisOf(const MicroShape& s, Axis axis, Degree degree) {
  int stride = 1;
  for (const Axis inner : s.order) {
    if (inner == axis) break;
    stride *= degree(s, inner);
  }
  return {degree(s, axis), stride};
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

RankGroup TensorGroup(const MicroShape& s) { return Single(AxisOf(s, Axis::kTp, DenseDegree)); }
RankGroup ContextGroup(const MicroShape& s) { return Single(AxisOf(s, Axis::kCp, DenseDegree)); }
RankGroup PipelineGroup(const MicroShape& s) { return Single(AxisOf(s, Axis::kPp, DenseDegree)); }
RankGroup ExpertGroup(const MicroShape& s) { return Single(AxisOf(s, Axis::kEp, ExpertDegree)); }
RankGroup ExpertTensorGroup(const MicroShape& s) {
  return Single(AxisOf(s, Axis::kTp, ExpertDegree));
}
RankGroup ExpertDataGroup(const MicroShape& s) {
  return Single(AxisOf(s, Axis::kDp, ExpertDegree));
}

RankGroup DataGroup(const MicroShape& s) {
  GroupAxis context = AxisOf(s, Axis::kCp, DenseDegree);
  GroupAxis data = AxisOf(s, Axis::kDp, DenseDegree);
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
