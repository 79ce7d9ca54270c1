// Which parts of a model learn, by the one reading of `training.frozen` (plan/frozen.h). A frozen
// layer still passes gradients on to what learns below it.
#pragma once

#include "restow/schema/job.h"

namespace restow::plan {

enum class Trained {
  kFully,      // weight and input gradients
  kInputOnly,  // frozen, with something that learns below it, or adapters inside
  kNot,        // frozen, and nothing below it learns: no backward at all
};

// Language model layers of `kind` (an index of model.stack.kinds): frozen when attention and
// feed-forward of every layer of the kind are.
Trained TrainedLayers(const Job& job, int kind);
// Layers of a tower (an index of model.towers). Nothing stands below it.
Trained TrainedTower(const Job& job, int tower);
bool TrainedHead(const Job& job);

}  // namespace restow::plan
