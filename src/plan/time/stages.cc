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
                     LayerMeans& means, int stages) {
  Seconds sum;
  for (const LayerRun& run : chunk.runs) {
    const LayerSeconds& layer = LayerOf(table, run);
    sum += run.count * (layer.forward_total + layer.backward_total);
    if (kinds.entries[static_cast<std::size_t>(run.kind)].tower >= 0) continue;
    means.forward += run.count * stages * layer.forward_total;
    means.backward += run.count * stages * layer.backward_total;
    means.layers += run.count * stages;
  }
  return sum;
}

// One stage with its edges, of which there are `stages`.
Seconds OneStage(const KindTable& kinds, const std::vector<Chunk>& chunks,
                 const LayerSecondsTable& table, const EdgeSeconds& edges, LayerMeans& means,
                 int stages) {
  Seconds sum;
  for (const Chunk& chunk : chunks) {
    sum += ChunkSeconds(kinds, chunk, table, means, stages);
    if (chunk.embedding) sum += edges.embedding;
    if (chunk.head) sum += edges.head;
  }
  return sum;
}

void Close(const LayerMeans& means, StageSeconds& out) {
  if (means.layers == 0) return;
  out.layer_forward = means.forward / means.layers;
  out.layer_backward = means.backward / means.layers;
}

// Multi-token prediction is spread over the stages.
Seconds MtpShare(const Model& model, const StageSplit& split, const LayerSecondsTable& table,
                 const EdgeSeconds& edges) {
  const LayerSeconds* mtp = MtpLayer(model, split, table);
  if (mtp == nullptr) return Seconds(0);
  return (mtp->forward_total + mtp->backward_total + edges.head + edges.mtp) *
         (static_cast<double>(model.mtp_layers) / split.stages());
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
  StageSeconds out;
  out.stage.reserve(split.chunks.size());
  const Seconds everywhere = MtpShare(machine.job().model, split, layer_seconds, edges);
  LayerMeans means;
  for (const std::vector<Chunk>& chunks : split.chunks) {
    out.stage.push_back(everywhere + OneStage(kinds, chunks, layer_seconds, edges, means, 1));
    out.sum += out.stage.back();
  }
  out.pace =
      static_cast<int>(std::max_element(out.stage.begin(), out.stage.end()) - out.stage.begin());
  out.slowest = out.stage[static_cast<std::size_t>(out.pace)];
  Close(means, out);
  return out;
}

StageSeconds AssembleStageClasses(const Machine& machine, const KindTable& kinds,
                                  const StageSplit& split, const std::vector<int>& first_stage,
                                  const std::vector<int>& stages_in_class,
                                  const LayerSecondsTable& layer_seconds,
                                  const EdgeSeconds& edges) {
  StageSeconds out;
  const Seconds everywhere = MtpShare(machine.job().model, split, layer_seconds, edges);
  LayerMeans means;
  for (std::size_t c = 0; c < first_stage.size(); ++c) {
    const auto& chunks = split.chunks[static_cast<std::size_t>(first_stage[c])];
    const Seconds stage =
        everywhere + OneStage(kinds, chunks, layer_seconds, edges, means, stages_in_class[c]);
    out.sum += stage * stages_in_class[c];
    if (stage <= out.slowest) continue;
    out.slowest = stage;
    out.pace = first_stage[c];
  }
  Close(means, out);
  return out;
}

}  // namespace restow::plan
