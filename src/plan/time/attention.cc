#include "plan/time/attention.h"

#include <algorithm>
#include <cmath>

namespace restow::plan {
namespace {

// FLOPs of forward; backward has 2.5 times as many (the scores are formed again).
Pass FlashAttention(const LayerContext& x) {
  const Machine::Constants& k = x.k;
  const double flops = 2.0 * x.tokens * MeanSpan(x.kind.attention, x.sequence) * x.heads *
                       (x.query_width + x.value_width);
  const double items = x.tokens * x.heads / (k.query_rows * k.units);
  // Narrow heads starve the matrix unit.
  const double rate = k.attention_rate * std::min(1.0, (std::min(x.query_width, 128.0) + 32) / 160);
  return {flops / (rate * items / (items + k.half_items)) + k.kernel,
          2.5 * flops / (rate * k.attention_backward * items / (items + 0.3 * k.half_items)) +
              k.kernel};
}

// Score matrices written out: batched products over heads and passes of softmax over them.
Pass UnfusedAttention(const LayerContext& x) {
  const Machine::Constants& k = x.k;
  const double batch = x.tokens / x.sequence * x.heads;
  const double s = x.sequence;
  // Rows that are no multiple of 16 bytes fall back to slow kernels.
  const double scale = std::fmod(x.query_width, 8.0) == 0 ? 1.0 : k.unaligned;
  const double products =
      ProductSeconds(k, k.wide, {s, s, x.query_width, batch, scale}, k.element) +
      ProductSeconds(k, k.wide, {s, x.value_width, s, batch, scale}, k.element);
  const double softmax = ElementwiseSeconds(k, batch * s * s * k.element * k.softmax_passes);
  return {products + softmax, 2 * products + 1.5 * softmax};
}

}  // namespace

double MeanSpan(const Attention& attention, double sequence) {
  const double window = attention.window;
  const bool windowed = window > 0 && window < sequence;
  if (!attention.causal) return windowed ? window : sequence;
  return windowed ? window * (1 - window / (2 * sequence)) : sequence / 2;
}

Pass AttentionSeconds(const LayerContext& x) {
  return x.k.flash ? FlashAttention(x) : UnfusedAttention(x);
}

}  // namespace restow::plan
