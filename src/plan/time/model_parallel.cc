// Collectives inside a layer: tensor and sequence parallel, context parallel. Source: time-model.md
// section 2, "TP/SP" and "CP".
#include <algorithm>

#include "plan/time/collective.h"
#include "plan/time/layer.h"

namespace restow::plan {
namespace {

// Per block forward a gather and a scatter of tokens × hidden (or one all-reduce, the same bytes);
// backward the same, and with sp half a gather more for the weight gradient's input.
void AddTensor(const LayerContext& x, LayerPieces& out) {
  const bool one_block = x.kind.feed_forward.experts.has_value() && x.shape.etp == 1;
  const double blocks = one_block ? 1 : 2;
  const double gather =
      GatherSeconds(x.k, x.tokens * x.kind.hidden * x.k.element, TensorGroup(x.shape));
  const Pass all{2 * blocks * gather, (2 * blocks + (x.shape.sp ? 0.5 * blocks : 0)) * gather};
  const double exposed = x.tp > x.k.widest_overlap ? 1.0 : x.k.tensor_exposed;
  out.tensor = exposed * all;
  out.tensor_hidden = (1 - exposed) * all;
}

// Keys and values pass around the ring, under attention as far as it lasts.
void AddRing(const LayerContext& x, LayerPieces& out) {
  const RingPath path = PathOf(x.k, ContextGroup(x.shape));
  const double steps = x.shape.cp - 1;
  const double width = x.kv_heads * (x.query_width + x.value_width);
  const double ring = x.tokens * width * x.k.element * steps / path.rate + path.start * steps;
  const Pass all{ring, 2 * ring};
  out.context = {std::max(all.forward * x.k.ring_exposed, all.forward - out.attention.forward),
                 std::max(all.backward * x.k.ring_exposed, all.backward - out.attention.backward)};
  out.context_hidden = all + -1.0 * out.context;
}

// Queries, keys, values and outputs change from a share of tokens to a share of heads and back.
void AddAllToAll(const LayerContext& x, LayerPieces& out) {
  const double kv = std::max(x.kv_heads, static_cast<double>(x.shape.cp));
  const double width = x.heads * (x.query_width + x.value_width) +
                       kv * (x.query_width + x.value_width);
  // Four tensors in four exchanges; their mean width is a quarter of the whole.
  const double bytes = x.tokens * width * x.k.element / 4;
  const double each = 4 * AllToAllSeconds(x.k, bytes, ContextGroup(x.shape), 1);
  out.context = {each, each};
}

}  // namespace

void AddModelParallel(const LayerContext& x, LayerPieces& out) {
  if (x.tp > 1) AddTensor(x, out);
  if (x.tower || x.shape.cp <= 1) return;
  if (x.shape.cp_kind == CpKind::kAllToAll) {
    AddAllToAll(x, out);
  } else {
    AddRing(x, out);
  }
}

}  // namespace restow::plan
