// What a layer takes longer because the host cannot launch it faster. Source: time-model.md
// section 2, "Host floor".
#include <algorithm>

#include "plan/time/layer.h"

namespace restow::plan {

void AddHostFloor(const LayerContext& x, Recompute mode, LayerPieces& out) {
  const bool experts = x.kind.feed_forward.experts.has_value();
  const double host = (experts ? x.k.expert_layer_host : x.k.layer_host) +
                      CheckpointHostSeconds(x, mode);
  const double forward = 0.4 * host + DispatchHostSeconds(x, mode);
  const Pass work = out.work();
  const double stall = x.k.stall / 2;
  out.host = {std::max(0.0, forward - work.forward) + stall,
              std::max(0.0, 0.6 * host - work.backward) + stall};
}

}  // namespace restow::plan
