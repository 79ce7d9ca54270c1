// `current`: what a job runs with today.
#include <fmt/format.h>

#include <charconv>

#include "io/dimensions.h"
#include "io/fields.h"
#include "io/job_reader.h"
#include "restow/base/error.h"
#include "restow/base/text.h"

namespace restow {
namespace {

constexpr int kLargestModel = 1 << 20;

struct Range {
  int first;
  int last;
};

// "4", "0-3". `whole` is the node the text stands in.
Range ReadRange(std::string_view text, const Node& whole, int layers) {
  const auto refuse = [&] {
    RefuseValue(whole, fmt::format("layers from 0 to {} are expected, like 0-3", layers - 1));
  };
  int bounds[2] = {0, 0};
  int count = 0;
  while (count < 2) {
    const std::size_t dash = text.find('-');
    const std::string_view part = Trim(text.substr(0, dash));
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), bounds[count]);
    if (parsed.ec != std::errc() || parsed.ptr != part.data() + part.size()) refuse();
    ++count;
    if (dash == std::string_view::npos) break;
    if (count == 2) refuse();
    text.remove_prefix(dash + 1);
  }
  const Range range = {bounds[0], count == 2 ? bounds[1] : bounds[0]};
  if (range.last < range.first || range.last >= layers) refuse();
  return range;
}

RecomputePlan ReadLayerModes(const Node& list, int layers) {
  RecomputePlan plan;
  plan.layers.assign(static_cast<std::size_t>(layers), Recompute::kOff);
  std::vector<bool> named(plan.layers.size(), false);
  for (const Node& item : list.items) {
    Members fields(item);
    const Node& where = fields.Need("layers", "state them like 0-3");
    const Recompute mode = ReadSingleRecompute(&fields.Need("mode", "state off, selective or full"),
                                               item.path + ".mode");
    fields.RefuseRest();
    for (const Node& part : Elements(where)) {
      const Range range = ReadRange(part.AsString(), where, layers);
      for (int layer = range.first; layer <= range.last; ++layer) {
        const auto at = static_cast<std::size_t>(layer);
        if (named[at]) RefuseValue(where, fmt::format("layer {} is stated twice", layer));
        named[at] = true;
        plan.layers[at] = mode;
      }
    }
  }
  return plan;
}

RecomputePlan ReadCurrentRecompute(const Node& node, int layers) {
  const bool by_layer = node.is_list() && !node.items.empty() && node.items.front().is_map();
  if (!by_layer) return {ReadSingleRecompute(&node, node.path), {}};
  if (layers > kLargestModel) RefuseValue(node, "the model has too many layers to list");
  return ReadLayerModes(node, layers);
}

}  // namespace

CurrentStrategy ReadCurrent(const Node& node, int layers) {
  Members fields(node);
  CurrentStrategy current;
  current.where = node.where;
  for (const std::string& name : DimensionNames()) {
    const Node* n = fields.Take(name);
    if (n == nullptr) continue;
    if (name == "recompute") {
      current.recompute = ReadCurrentRecompute(*n, layers);
    } else {
      ReadCurrentInto(name, *n, current);
    }
  }
  fields.RefuseRest();
  return current;
}

}  // namespace restow
