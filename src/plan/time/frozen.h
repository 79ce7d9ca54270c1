// Which parts of a model learn. A frozen layer still passes gradients on to what learns below it.
#pragma once

#include "restow/schema/job.h"

namespace restow::plan {

enum class Trained {
  kFully,      // weight and input gradients
  kInputOnly,  // frozen, with something that learns below it, or adapters inside
  kNot,        // frozen, and nothing below it learns: no backward at all
};

// Language model layers of `kind` (an index of model.stack.kinds): frozen when every layer of the
// kind matches a glob of `training.frozen` ("layers.3", "layers.*", "language_model"), or under LoRA.
Trained TrainedLayers(const Job& job, int kind);
// Layers of a tower: frozen when a glob matches its name, or under LoRA. Nothing stands below it.
Trained TrainedTower(const Job& job, const Tower& tower);
// False when the output layer is frozen ("lm_head", "language_model", or under LoRA).
bool TrainedHead(const Job& job);

}  // namespace restow::plan
