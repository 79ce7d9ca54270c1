// Mixture of experts: routed and shared products, permutation, dispatch and combine. Source:
// time-model.md section 2, "EP" and "MoE layer extras".
#include <algorithm>

#include "plan/time/collective.h"
#include "plan/time/layer.h"

namespace restow::plan {
namespace {

// Rows that reach this rank's experts. The etp ranks of an expert work on the tokens of all of
// them; the worst rank takes `imbalance` times its share.
double RoutedRows(const LayerContext& x) {
  const MicroShape& s = x.shape;
  return x.tokens * x.kind.feed_forward.experts->per_token * s.etp / s.tp * x.k.imbalance;
}

// Bytes of activation functions on the routed rows.
double AddRouted(const LayerContext& x, double rows, double local, LayerPieces& out) {
  const Experts& experts = *x.kind.feed_forward.experts;
  const double in = x.kind.feed_forward.gated ? 2 : 1;
  const double width = static_cast<double>(experts.width) / x.shape.etp;
  const double each = rows / local, h = x.kind.hidden;
  out.mlp += WeightProduct(x.k, x.k.compute, {each, in * width, h, local, x.k.grouped},
                           x.weight_gradient());
  out.mlp += WeightProduct(x.k, x.k.compute, {each, h, width, local, x.k.grouped},
                           x.weight_gradient());
  const bool biased = x.k.biased || experts.expert_bias;
  return rows * width * x.k.element * (in + 1) * (biased ? x.k.biased_activation : 1.0);
}

double AddShared(const LayerContext& x, LayerPieces& out) {
  const double in = x.kind.feed_forward.gated ? 2 : 1;
  const double width = static_cast<double>(x.kind.feed_forward.experts->shared_width) / x.tp;
  const double h = x.kind.hidden;
  out.shared = WeightProduct(x.k, x.k.compute, {x.tokens, in * width, h}, x.weight_gradient()) +
               WeightProduct(x.k, x.k.compute, {x.tokens, h, width}, x.weight_gradient());
  out.mlp += out.shared;
  return x.tokens * width * x.k.element * (in + 1);
}

void AddExchange(const LayerContext& x, double rows, LayerPieces& out) {
  const MicroShape& s = x.shape;
  const Experts& experts = *x.kind.feed_forward.experts;
  const double h = x.kind.hidden;
  const double copies = x.k.one_copy_per_node ? experts.per_token : 1.0;
  const double sent = x.tokens / s.tp * experts.per_token * h * x.k.element * x.k.imbalance;
  const double all = 2 * AllToAllSeconds(x.k, sent, ExpertGroup(s), copies);
  const double gathers =
      2 * GatherSeconds(x.k, rows * h * x.k.element, ExpertTensorGroup(s));
  const double exposed = x.k.expert_exposed * all + gathers;
  const double hidden = (1 - x.k.expert_exposed) * all;
  out.expert = {exposed, exposed};
  out.expert_hidden = {hidden, hidden};
}

}  // namespace

void AddExperts(const LayerContext& x, LayerPieces& out) {
  const Experts& experts = *x.kind.feed_forward.experts;
  const double rows = RoutedRows(x);
  const double local = std::max(1, experts.count / x.shape.ep);
  double bytes = AddRouted(x, rows, local, out);
  if (experts.shared_width > 0) {
    const double shared = AddShared(x, out);
    const double forward = ElementwiseSeconds(x.k, shared);
    out.shared_activation = {forward, 1.67 * forward};
    bytes += shared;
  }
  const double activation = ElementwiseSeconds(x.k, bytes);
  out.activation = {activation, 1.67 * activation};
  // Rows are written once and read back (8 bytes), scores of all experts pass eight times.
  const double moved = rows * x.kind.hidden * 4 * x.k.element +
                       x.tokens / x.tp * experts.count * 8 * x.k.element;
  const double permute = ElementwiseSeconds(x.k, moved * x.k.permute);
  out.permute = {permute, 2 * permute};
  const double fixed = local * x.k.expert_fixed;
  out.expert_fixed = {fixed + x.k.expert_stall, 2 * fixed + 0.5 * x.k.expert_stall};
  AddExchange(x, rows, out);
}

}  // namespace restow::plan
