// Dense feed-forward part of a layer.
#include "plan/time/layer.h"

namespace restow::plan {

void AddDenseFeedForward(const LayerContext& x, LayerPieces& out) {
  const FeedForward& ffn = x.kind.feed_forward;
  const double h = x.kind.hidden, width = static_cast<double>(ffn.width) / x.tp;
  const double in = ffn.gated ? 2 : 1;
  out.mlp = WeightProduct(x.k, x.k.compute, {x.tokens, in * width, h}, x.weight_gradient()) +
            WeightProduct(x.k, x.k.compute, {x.tokens, h, width}, x.weight_gradient());
  if (ffn.gated) out.mlp += AdapterProduct(x, "gate_proj", x.tokens, width, h);
  out.mlp += AdapterProduct(x, "up_proj", x.tokens, width, h);
  out.mlp += AdapterProduct(x, "down_proj", x.tokens, h, width);
  // Reads what the first product wrote, writes the second one's input; 1.67 times that backward.
  const double forward = ElementwiseSeconds(x.k, x.tokens * width * x.k.element * (in + 1));
  out.activation = {forward, 1.67 * forward};
}

}  // namespace restow::plan
