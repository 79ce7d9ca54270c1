// Jobs and whole stages for tests of the memory model.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plan/memory/memory.h"
#include "restow/io/presets.h"

namespace restow::plan::testing {

inline LayerKind DenseKind(int hidden, int width, int heads, int kv_heads, int head_dim) {
  LayerKind kind;
  kind.name = "dense";
  kind.hidden = hidden;
  kind.attention.heads = heads;
  kind.attention.kv_heads = kv_heads;
  kind.attention.head_dim = head_dim;
  kind.feed_forward.width = width;
  return kind;
}

inline Job JobOf(const LayerKind& kind, int layers, int vocab, int sequence) {
  Job job;
  job.name = "test";
  job.calibration = DefaultCalibration();
  job.model.stack.kinds = {kind};
  job.model.stack.order.assign(static_cast<std::size_t>(layers), 0);
  job.model.vocab = vocab;
  job.cluster.device.silicon = "h100";
  job.training.sequence = sequence;
  job.training.global_batch = 64;
  return job;
}

inline Job Llama8b(int sequence = 8192) {
  return JobOf(DenseKind(4096, 14336, 32, 8, 128), 32, 128256, sequence);
}

// Chunks of every stage from layers per virtual stage, modes by layer index.
template <class ModeOf>
std::vector<std::vector<Chunk>> ChunksOf(const Job& job, const std::vector<int>& counts, int pp,
                                         ModeOf mode_of) {
  std::vector<std::vector<Chunk>> stages(static_cast<std::size_t>(pp));
  int layer = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    Chunk chunk;
    chunk.first_layer = layer;
    chunk.embedding = i == 0;
    chunk.head = i + 1 == counts.size();
    for (int k = 0; k < counts[i]; ++k, ++layer) {
      chunk.runs.push_back(
          {job.model.stack.order[static_cast<std::size_t>(layer)], mode_of(layer, k), 1});
    }
    stages[i % static_cast<std::size_t>(pp)].push_back(chunk);
  }
  return stages;
}

inline LayerBytesTable TableOf(const MemorySoftware& software, const KindTable& kinds,
                               const MicroShape& shape) {
  LayerBytesTable table;
  for (const KindTable::Entry& kind : kinds.entries) {
    table.emplace_back();
    for (int mode = 0; mode < kRecomputeModes; ++mode) {
      table.back()[static_cast<std::size_t>(mode)] =
          PriceLayerBytes(software, kind, shape, static_cast<Recompute>(mode));
    }
  }
  return table;
}

// Every stage of a layout, priced the plain way.
inline std::vector<StageBytes> PriceStages(const Job& job, const Layout& layout,
                                           const std::vector<std::vector<Chunk>>& chunks,
                                           Recompute head_mode = Recompute::kOff) {
  const MemorySoftware software(job);
  const KindTable kinds(job.model);
  const MicroShape shape = ShapeOf(layout);
  const LayerBytesTable table = TableOf(software, kinds, shape);
  const HeadBytes head = PriceHeadBytes(software, kinds, shape, head_mode);
  const PipelineShape pipeline{layout.vpp > 1 ? Schedule::kInterleaved : layout.schedule, layout.pp,
                               layout.vpp, layout.micro_batches,
                               job.training.options.interleave_group.value_or(0)};
  std::vector<StageBytes> result;
  for (int stage = 0; stage < layout.pp; ++stage) {
    const std::vector<Chunk>& own = chunks[static_cast<std::size_t>(stage)];
    std::vector<ChunkBytes> bytes;
    for (std::size_t c = 0; c < own.size(); ++c) {
      bytes.push_back(
          AssembleChunk(software, shape, own[c], table, head, stage, static_cast<int>(c)));
    }
    const StageParameters parameters =
        PriceStageParameters(software, kinds, own, layout.tp, layout.ep, layout.etp, layout.pp);
    result.push_back(AssembleStage(software, shape, own, bytes,
                                   PeakInFlight(PeakMoments(pipeline, stage), bytes),
                                   PriceStates(software, parameters, layout),
                                   PriceExtras(software, parameters, shape), head, table, stage));
  }
  return result;
}

// All layers alike, spread evenly.
inline std::vector<StageBytes> PriceEven(const Job& job, const Layout& layout, Recompute mode) {
  const int parts = layout.pp * layout.vpp;
  const std::vector<int> counts(static_cast<std::size_t>(parts), job.model.stack.layers() / parts);
  const auto same = [&](int, int) { return mode; };
  return PriceStages(job, layout, ChunksOf(job, counts, layout.pp, same), mode);
}

inline Bytes WorstOf(const std::vector<StageBytes>& stages) {
  Bytes worst;
  for (const StageBytes& stage : stages) worst = std::max(worst, stage.peak);
  return worst;
}

inline Bytes TermOf(const StageBytes& stage, MemoryTerm term) {
  return stage.terms[static_cast<std::size_t>(term)];
}

}  // namespace restow::plan::testing
