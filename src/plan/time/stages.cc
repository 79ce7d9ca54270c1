// Seconds of every stage for one micro-batch.
#include <algorithm>

#include "plan/time/step.h"

namespace restow::plan {
namespace {

// Sums over the language model's layers of all stages.
struct LayerMeans {
  Seconds forward, backward;
  int layers = 0;
};

Seconds ChunkSeconds(const KindTable& kinds, const Chunk& chunk, const LayerSecondsTable& table,
                     LayerMeans& means) {
  Seconds sum;
  for (const LayerRun& run : chunk.runs) {
    const LayerSeconds& layer = LayerOf(table, run);
    sum += run.count * (layer.forward_total + layer.backward_total);
    if (kinds.entries[static_cast<std::size_t>(run.kind)].tower >= 0) continue;
    means.forward += run.count * layer.forward_total;
    means.backward += run.count * layer.backward_total;
    means.layers += run.count;
  }
  return sum;
}

}  // namespace

const LayerSeconds* MtpLayer(const Model& model, const StageSplit& split,
                             const LayerSecondsTable& table) {
  if (model.mtp_layers <= 0) return nullptr;
  // It is recomputed as the model's last layer is.
  Recompute mode = Recompute::kOff;
  const Chunk& last = split.chunks.back().back();
  if (!last.runs.empty()) mode = last.runs.back().mode;
  return &table[static_cast<std::size_t>(model.mtp_kind)][static_cast<std::size_t>(mode)];
}

StageSeconds AssembleStages(const Machine& machine, const KindTable& kinds, const StageSplit& split,
                            const LayerSecondsTable& layer_seconds, const EdgeSeconds& edges) {
  const Model& model = machine.job().model;
  StageSeconds out;
  out.stage.reserve(split.chunks.size());
  Seconds everywhere;
  if (const LayerSeconds* mtp = MtpLayer(model, split, layer_seconds)) {
    everywhere = (mtp->forward_total + mtp->backward_total + edges.head + edges.mtp) *
                 (static_cast<double>(model.mtp_layers) / split.stages());
  }
  LayerMeans means;
  for (const std::vector<Chunk>& chunks : split.chunks) {
    Seconds stage = everywhere;
    for (const Chunk& chunk : chunks) {
      stage += ChunkSeconds(kinds, chunk, layer_seconds, means);
      if (chunk.embedding) stage += edges.embedding;
      if (chunk.head) stage += edges.head;
    }
    out.stage.push_back(stage);
    out.sum += stage;
  }
  out.pace = static_cast<int>(std::max_element(out.stage.begin(), out.stage.end()) -
                              out.stage.begin());
  if (means.layers > 0) {
    out.layer_forward = means.forward / means.layers;
    out.layer_backward = means.backward / means.layers;
  }
  return out;
}

}  // namespace restow::plan
