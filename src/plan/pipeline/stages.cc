#include "plan/pipeline/stages.h"

#include <algorithm>
#include <numeric>

#include "restow/base/check.h"

namespace restow::plan {
namespace {

// Every part gets `total / parts`; the rest goes to the middle first, then the first, then the
// last.
std::vector<int> Spread(int total, int parts) {
  std::vector<int> counts(static_cast<std::size_t>(parts), total / parts);
  int rest = total % parts;
  for (int i = 1; i + 1 < parts && rest > 0; ++i, --rest) ++counts[static_cast<std::size_t>(i)];
  if (rest > 0) ++counts.front(), --rest;
  if (rest > 0) ++counts.back();
  return counts;
}

// DeepSpeed finds the smallest largest part and fills parts up to it from the front (its
// runtime/utils.py, partition_balanced).
std::vector<int> FillFromTheFront(int total, int parts) {
  const int most = (total + parts - 1) / parts;
  std::vector<int> counts;
  for (int part = 0, left = total; part < parts; ++part) {
    counts.push_back(std::max(1, std::min(most, left - (parts - part - 1))));
    left -= counts.back();
  }
  return counts;
}

bool SumsTo(const std::vector<int>& counts, int total) {
  return std::accumulate(counts.begin(), counts.end(), 0) == total;
}

void AddLayers(Chunk& chunk, int kind, Recompute mode, int count) {
  if (count == 0) return;
  if (!chunk.runs.empty() && chunk.runs.back().kind == kind && chunk.runs.back().mode == mode) {
    chunk.runs.back().count += count;
    return;
  }
  chunk.runs.push_back({kind, mode, count});
}

}  // namespace

int Chunk::layers() const {
  int n = 0;
  for (const LayerRun& run : runs) n += run.count;
  return n;
}

std::vector<int> LayersPerVirtualStage(const Job& job, int pp, int vpp) {
  const FrameworkOptions& options = job.training.options;
  const int layers = job.model.stack.layers();
  const int parts = pp * vpp;
  RESTOW_CHECK(parts >= 1);
  if (static_cast<int>(options.chunk_layers.size()) == parts &&
      SumsTo(options.chunk_layers, layers)) {
    return options.chunk_layers;
  }
  RESTOW_CHECK(parts <= layers + 2);
  if (options.first_last_layers.size() == 2 && pp > 2 && vpp == 1) {
    const int ends = options.first_last_layers[0] + options.first_last_layers[1];
    if (ends < layers) {
      std::vector<int> counts = Spread(layers - ends, pp - 2);
      counts.insert(counts.begin(), options.first_last_layers[0]);
      counts.push_back(options.first_last_layers[1]);
      return counts;
    }
  }
  if (options.embedding_and_loss_count_as_layers.value_or(false) && parts > 1) {
    std::vector<int> counts = Spread(layers + 2, parts);
    --counts.front();
    --counts.back();
    return counts;
  }
  return job.training.framework == Framework::kDeepSpeed ? FillFromTheFront(layers, parts)
                                                         : Spread(layers, parts);
}

StageSplit SplitStages(const Job& job, const KindTable& kinds, int pp, int vpp,
                       const RecomputePlan& recompute) {
  const std::vector<int> counts = LayersPerVirtualStage(job, pp, vpp);
  StageSplit split;
  split.chunks.assign(static_cast<std::size_t>(pp),
                      std::vector<Chunk>(static_cast<std::size_t>(vpp)));
  Chunk& first = split.chunks.front().front();
  first.embedding = true;
  for (std::size_t t = 0; t < job.model.towers.size(); ++t) {
    for (const int kind : job.model.towers[t].stack.order) {
      AddLayers(first, kinds.tower_base[t] + kind, recompute.mode, 1);
    }
  }
  int layer = 0;
  for (int virtual_stage = 0; virtual_stage < pp * vpp; ++virtual_stage) {
    Chunk& chunk = split.chunks[static_cast<std::size_t>(virtual_stage % pp)]
                               [static_cast<std::size_t>(virtual_stage / pp)];
    chunk.first_layer = layer;
    for (int i = 0; i < counts[static_cast<std::size_t>(virtual_stage)]; ++i, ++layer) {
      AddLayers(chunk, job.model.stack.order[static_cast<std::size_t>(layer)], recompute.at(layer),
                1);
    }
  }
  split.chunks.back().back().head = true;
  return split;
}

}  // namespace restow::plan
