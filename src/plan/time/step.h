// Shared by the files that put a step together.
#pragma once

#include "plan/time/time.h"

namespace restow::plan {

inline const LayerSeconds& LayerOf(const LayerSecondsTable& table, const LayerRun& run) {
  return table[static_cast<std::size_t>(run.kind)][static_cast<std::size_t>(run.mode)];
}

// The layer of multi-token prediction, or null for a model without.
const LayerSeconds* MtpLayer(const Model& model, const StageSplit& split,
                             const LayerSecondsTable& table);

}  // namespace restow::plan
