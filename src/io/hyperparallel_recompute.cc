// What a trainer recomputes: one mode, or so many layers of each stage.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "io/fields.h"
#include "io/hyperparallel_file.h"
#include "restow/base/error.h"
#include "restow/io/read.h"

namespace restow::hyperparallel {
namespace {

// HyperParallel's mode beyond the three; it keeps the activations of expert layers.
constexpr const char* kLaterMode = "full_except_moe";

const Node* FindMode(File& file) {
  const Node* mode = nullptr;
  for (const char* section :
       {"activation_checkpoint", "gradient_checkpointing", "train.gradient_checkpointing",
        "train.activation_checkpoint", "training.activation_checkpoint"}) {
    const Node* node = file.Find({section});
    if (node == nullptr) continue;
    const std::string path = section;
    // The section may be the mode itself.
    const Node* found =
        node->is_map() ? file.Find({path + ".mode", path + ".activation_checkpoint"}) : node;
    if (mode == nullptr) mode = found;
  }
  const Node* sharded = file.Find({"fsdp_config.activation_checkpointing"});
  return mode != nullptr ? mode : sharded;
}

// Layers of each stage that `counts` counts in.
std::vector<int> CountedStages(File& file, int layers, int stages, const Node& counts) {
  std::vector<FieldNote> ignored;
  std::vector<int> sizes = ReadStageLayers(file, layers, stages, ignored);
  if (!sizes.empty()) return sizes;
  if (layers % stages != 0) {
    RefuseValue(counts, fmt::format("it counts layers of {} stages, over which the model's {} "
                                    "layers do not spread evenly; state offset per stage",
                                    stages, layers));
  }
  sizes.assign(static_cast<std::size_t>(stages), layers / stages);
  return sizes;
}

// Gives `mode` to the first layers, so far `off`, of each stage.
void Mark(File& file, const Node& counts, Recompute mode, int stages,
          std::vector<Recompute>& plan) {
  const int layers = static_cast<int>(plan.size());
  const std::vector<Node> listed = Elements(counts);
  const int groups = counts.is_list() ? static_cast<int>(listed.size()) : stages;
  if (groups == 0 || groups % stages != 0) {
    RefuseValue(counts, fmt::format("one count for each of the {} stages is expected", stages));
  }
  const std::vector<int> sizes = CountedStages(file, layers, groups, counts);
  int first = 0;
  for (int group = 0; group < groups; ++group) {
    const int size = sizes[static_cast<std::size_t>(group)];
    const Node& count = counts.is_list() ? listed[static_cast<std::size_t>(group)] : counts;
    int left = std::min(count.AsInt(0, 1 << 20), size);
    for (int layer = first; layer < first + size && left > 0; ++layer) {
      Recompute& at = plan[static_cast<std::size_t>(layer)];
      if (at != Recompute::kOff) continue;
      at = mode;
      --left;
    }
    first += size;
  }
}

// A switch that is on: true, a count, or a list of counts.
bool IsOn(const Node* node) {
  if (node == nullptr) return false;
  return node->is_bool() ? node->AsBool() : true;
}

// `full_rec` and `sel_rec` of a configuration's overrides, on top of the mode.
RecomputePlan ReadOverrides(File& file, const Node* mode_node, Recompute mode, int layers,
                            int stages) {
  const Node* full = file.Find({"model.config_overrides.full_rec"});
  const Node* selective = file.Find({"model.config_overrides.sel_rec"});
  const Node* other = IsOn(full) ? full : selective;
  if (!IsOn(full) && !IsOn(selective)) return {mode, {}};
  const Recompute stated = IsOn(full) ? Recompute::kFull : Recompute::kSelective;
  if (mode_node != nullptr && mode != stated) {
    RefuseValue(*other, fmt::format("{} says {}; one of the two is expected", mode_node->path,
                                    mode_node->Written()));
  }
  const bool whole =
      (full == nullptr || full->is_bool()) && (selective == nullptr || selective->is_bool());
  if (whole) return {stated, {}};
  RecomputePlan plan;
  plan.layers.assign(static_cast<std::size_t>(layers), Recompute::kOff);
  if (IsOn(full) && !full->is_bool()) Mark(file, *full, Recompute::kFull, stages, plan.layers);
  if (IsOn(selective)) {
    if (selective->is_bool()) {
      std::replace(plan.layers.begin(), plan.layers.end(), Recompute::kOff, Recompute::kSelective);
    } else {
      Mark(file, *selective, Recompute::kSelective, stages, plan.layers);
    }
  }
  return plan;
}

}  // namespace

std::vector<int> ReadStageLayers(File& file, int layers, int stages,
                                 std::vector<FieldNote>& notes) {
  const Node* offset = file.Find({"model.offset", "model.config_overrides.offset"});
  if (offset == nullptr || (offset->is_integer() && offset->AsInteger() == 0)) return {};
  if (!offset->is_list()) RefuseValue(*offset, "0 or a list with one number per stage is expected");
  std::vector<int> sizes(static_cast<std::size_t>(stages), layers / stages);
  const bool fits = offset->items.size() == sizes.size();
  bool even = true;
  for (std::size_t i = 0; i < offset->items.size(); ++i) {
    const int moved = offset->items[i].AsInt(-4096, 4096);
    even = even && moved == 0;
    if (fits) sizes[i] += moved;
  }
  if (even) return {};
  const bool whole = fits && std::accumulate(sizes.begin(), sizes.end(), 0) == layers &&
                     *std::min_element(sizes.begin(), sizes.end()) >= 0;
  if (whole) return sizes;
  notes.push_back({offset->path, fmt::format("does not make {} layers of {} stages; the planner's "
                                             "own stages are priced",
                                             layers, stages)});
  return {};
}

Recompute ReadRecomputeMode(File& file) {
  const Node* node = FindMode(file);
  if (node != nullptr && WordOf(*node) == kLaterMode) {
    ThrowUnsupported(fmt::format("{} is {}, which is not available in this version; allowed: one "
                                 "mode (off, selective or full)",
                                 node->path, node->Written()),
                     node->where);
  }
  return ReadSingleRecompute(node, node == nullptr ? "activation_checkpoint.mode" : node->path);
}

RecomputePlan ReadCurrentRecompute(File& file, int layers, int stages) {
  const Recompute mode = ReadRecomputeMode(file);
  const Node* counts =
      file.Find({"activation_checkpoint.num_layers", "gradient_checkpointing.num_layers",
                 "train.gradient_checkpointing.num_layers"});
  if (counts != nullptr && mode != Recompute::kOff) {
    RecomputePlan plan;
    plan.layers.assign(static_cast<std::size_t>(layers), Recompute::kOff);
    Mark(file, *counts, mode, stages, plan.layers);
    return plan;
  }
  return ReadOverrides(file, FindMode(file), mode, layers, stages);
}

}  // namespace restow::hyperparallel
