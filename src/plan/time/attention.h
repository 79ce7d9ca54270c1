// Seconds of the score and value products. Source: time-model.md section 2, "Flash attention" and
// "Unfused attention".
#pragma once

#include "plan/time/layer.h"

namespace restow::plan {

// Tokens that a query of a sequence of `sequence` sees on average: half of them under a causal
// mask, w(1-w/2s) under a causal window w < s; without a mask all, or the window.
double MeanSpan(const Attention& attention, double sequence);

Pass AttentionSeconds(const LayerContext& x);

}  // namespace restow::plan
