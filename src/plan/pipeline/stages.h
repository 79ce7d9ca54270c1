// Which layers a stage holds, chunk by chunk.
#pragma once

#include <vector>

#include "plan/shape.h"
#include "restow/schema/job.h"
#include "restow/schema/strategy.h"

namespace restow::plan {

// Equal layers in a row: `kind` indexes KindTable.
struct LayerRun {
  int kind = 0;
  Recompute mode = Recompute::kOff;
  int count = 0;

  friend bool operator==(const LayerRun&, const LayerRun&) = default;
};

// One chunk of one stage, in the order its layers run. Tower layers come first, on the first chunk.
struct Chunk {
  std::vector<LayerRun> runs;
  bool embedding = false;  // the first chunk of the first stage
  bool head = false;       // the last chunk of the last stage: final norm, output layer, loss, MTP
  int first_layer = 0;     // of the language model's layers in it, the first one's index there

  int layers() const;
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

// chunks[stage][chunk]. Chunk c of stage r holds virtual stage c·pp + r.
struct StageSplit {
  std::vector<std::vector<Chunk>> chunks;

  int stages() const { return static_cast<int>(chunks.size()); }
  int chunks_per_stage() const { return static_cast<int>(chunks.front().size()); }
};

// Layers of the language model per virtual stage, in model order. They are spread evenly; what is
// left over goes to the middle stages first, then the first, then the last, whose head already
// weighs. Options state other splits: chunk_layers, first_last_layers,
// embedding_and_loss_count_as_layers.
// Requires: 1 <= pp·vpp <= layers of the model.
std::vector<int> LayersPerVirtualStage(const Job& job, int pp, int vpp);

StageSplit SplitStages(const Job& job, const KindTable& kinds, int pp, int vpp,
                       const RecomputePlan& recompute);

}  // namespace restow::plan
