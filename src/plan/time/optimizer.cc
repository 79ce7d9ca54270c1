// The optimizer step on the local shard, and clipping over all local gradients. Source: time-model.md
// section 2, "Optimizer".
#include <algorithm>

#include "plan/time/time.h"
#include "plan/time/machine.h"

namespace restow::plan {

Seconds PriceOptimizer(const Machine& machine, const Layout& layout, const StageTraffic& traffic) {
  const Machine::Constants& k = machine.constants();
  const double dense = traffic.dense + traffic.table;
  double shard = 1, expert_shard = 1;
  if (layout.zero > 0) {
    shard = layout.dp * layout.cp;
    if (layout.zero_span > 0) shard = std::min(shard, static_cast<double>(layout.zero_span));
    expert_shard = std::max(1, layout.dp * layout.cp * layout.tp / (layout.ep * layout.etp));
  }
  const double updated = dense / shard + traffic.expert / expert_shard;
  const double clipped =
      layout.zero == 3 ? (dense + traffic.expert) / shard : dense + traffic.expert;
  return Seconds(updated * (k.update_bytes / k.memory + k.update_seconds) +
                 clipped * k.clip_bytes / k.memory);
}

}  // namespace restow::plan
