#include "plan/time/frozen.h"

#include <string>

#include "restow/base/text.h"

namespace restow::plan {
namespace {

bool Matches(const Job& job, const std::string& name) {
  for (const std::string& glob : job.training.frozen) {
    if (GlobMatches(glob, name)) return true;
  }
  return false;
}

bool FrozenModel(const Job& job) {
  return Matches(job, "language_model") || Matches(job, "model") || Matches(job, "layers");
}

bool FrozenLayer(const Job& job, int layer) {
  const std::string name = "layers." + std::to_string(layer);
  return Matches(job, name) || Matches(job, "model." + name) ||
         Matches(job, "language_model." + name);
}

}  // namespace

Trained TrainedLayers(const Job& job, int kind) {
  if (job.training.lora || FrozenModel(job)) return Trained::kInputOnly;
  const std::vector<int>& order = job.model.stack.order;
  bool seen = false;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != kind) continue;
    if (!FrozenLayer(job, static_cast<int>(i))) return Trained::kFully;
    seen = true;
  }
  return seen ? Trained::kInputOnly : Trained::kFully;
}

Trained TrainedTower(const Job& job, const Tower& tower) {
  const bool frozen = job.training.lora.has_value() || Matches(job, tower.name) ||
                      Matches(job, tower.name + ".layers");
  return frozen ? Trained::kNot : Trained::kFully;
}

bool TrainedHead(const Job& job) {
  return !job.training.lora && !Matches(job, "lm_head") && !Matches(job, "language_model") &&
         !Matches(job, "model");
}

}  // namespace restow::plan
