#include "plan/time/trained.h"

#include "plan/frozen.h"

namespace restow::plan {
namespace {

bool FrozenLayer(const Job& job, int layer) {
  const std::string name = LayerModule(job.model, -1, layer);
  return IsFrozen(job.training, name + ".self_attn") && IsFrozen(job.training, name + ".mlp");
}

}  // namespace

Trained TrainedLayers(const Job& job, int kind) {
  const std::vector<int>& order = job.model.stack.order;
  bool seen = false;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != kind) continue;
    if (!FrozenLayer(job, static_cast<int>(i))) return Trained::kFully;
    seen = true;
  }
  return seen ? Trained::kInputOnly : Trained::kFully;
}

Trained TrainedTower(const Job& job, int tower) {
  return IsTowerFrozen(job, tower) ? Trained::kNot : Trained::kFully;
}

bool TrainedHead(const Job& job) { return !IsFrozen(job.training, "lm_head"); }

}  // namespace restow::plan
