// Attention block of a layer: projections, attention, norms and residuals.
#include <algorithm>

#include "plan/time/attention.h"
#include "plan/time/layer.h"

namespace restow::plan {
namespace {

Pass Weight(const LayerContext& x, double m, double n, double k) {
  return WeightProduct(x.k, x.k.compute, {m, n, k}, x.weight_gradient());
}

// DeepSeek-V2, arXiv:2405.04434, section 2.1: queries and keys through low ranks; the ranks'
// products are not divided by tp and run on a rank's own tokens.
void AddLatentProducts(const LayerContext& x, LayerPieces& out) {
  const LatentAttention& latent = *x.kind.attention.latent;
  const double h = x.kind.hidden;
  if (latent.q_rank > 0) {
    out.products += Weight(x, x.own, latent.q_rank, h);
    out.products += Weight(x, x.tokens, x.heads * x.query_width, latent.q_rank);
  } else {
    out.products += Weight(x, x.tokens, x.heads * x.query_width, h);
  }
  out.latent_up =
      Weight(x, x.tokens, x.heads * (latent.nope_dim + latent.value_dim), latent.kv_rank);
  out.products += out.latent_up;
  out.products += Weight(x, x.own, latent.kv_rank + latent.rope_dim, h);
  out.products += Weight(x, x.tokens, h, x.heads * x.value_width);
  out.products += AdapterProduct(x, "q_proj", x.tokens, x.heads * x.query_width, h);
  out.products += AdapterProduct(x, "o_proj", x.tokens, h, x.heads * x.value_width);
}

void AddProducts(const LayerContext& x, LayerPieces& out) {
  const double h = x.kind.hidden;
  const double query = x.heads * x.query_width * (x.kind.attention.output_gate ? 2 : 1);
  const double key = x.kv_heads * x.query_width, value = x.kv_heads * x.value_width;
  out.products += Weight(x, x.tokens, query + key + value, h);
  out.products += Weight(x, x.tokens, h, x.heads * x.value_width);
  out.products += AdapterProduct(x, "q_proj", x.tokens, query, h);
  out.products += AdapterProduct(x, "k_proj", x.tokens, key, h);
  out.products += AdapterProduct(x, "v_proj", x.tokens, value, h);
  out.products += AdapterProduct(x, "o_proj", x.tokens, h, x.heads * x.value_width);
}

// Widths that rotary embedding (or a change of layout without flash) passes over.
double RotaryWidth(const LayerContext& x) {
  if (x.kind.attention.latent) return x.heads * (x.query_width + x.value_width);
  return x.heads * x.query_width + x.kv_heads * (x.query_width + x.value_width);
}

}  // namespace

void AddAttentionBlock(const LayerContext& x, LayerPieces& out) {
  if (x.kind.attention.latent) {
    AddLatentProducts(x, out);
  } else {
    AddProducts(x, out);
  }
  out.attention = AttentionSeconds(x);
  // A norm reads and writes an element (4 bytes); two residual adds read two and write one (12).
  const double bytes = x.own * x.kind.hidden * (4 * x.kind.norms + 12) +
                       x.tokens * RotaryWidth(x) * (x.k.flash ? 4 : 6);
  const double forward = ElementwiseSeconds(x.k, bytes * x.k.element / 2);
  out.norms = {forward, 2 * forward};
}

}  // namespace restow::plan
