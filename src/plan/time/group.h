// Where the ranks of a communication group stand: how many, and how far apart along each axis of
// the grid it is made of. The order of the axes decides which links a collective crosses.
#pragma once

#include <array>

#include "plan/shape.h"

namespace restow::plan {

// Ranks of a group along one axis of the grid: `degree` of them, `stride` devices apart.
struct GroupAxis {
  int degree = 1;
  int stride = 1;
};

// A group over at most two axes, the inner one first.
struct RankGroup {
  std::array<GroupAxis, 2> axes{};

  int size() const { return axes[0].degree * axes[1].degree; }
};

// Members of `group` in one aligned domain of `domain` consecutive devices.
int MembersInside(const RankGroup& group, int domain);

// Stride of an axis: the product of the degrees of the axes before it. Expert groups cut the same
// ranks in the same order, with etp in tp's place, ep in its own and edp in dp's.
RankGroup TensorGroup(const MicroShape& shape);
RankGroup ContextGroup(const MicroShape& shape);
RankGroup DataGroup(const MicroShape& shape);      // dp·cp: what dense gradients are summed over
RankGroup PipelineGroup(const MicroShape& shape);
RankGroup ExpertGroup(const MicroShape& shape);
RankGroup ExpertTensorGroup(const MicroShape& shape);
RankGroup ExpertDataGroup(const MicroShape& shape);  // edp = dp·cp·tp/(ep·etp)

// The innermost `span` ranks of a group, and the group of their replicas.
struct SplitGroups {
  RankGroup shard, replicas;
};
SplitGroups SplitInner(const RankGroup& group, int span);

}  // namespace restow::plan
