#include "plan/memory/working.h"

#include <algorithm>
#include <array>

#include "plan/memory/saved.h"

namespace restow::plan {
namespace {

// What the feed-forward half has freed when attention runs backward.
constexpr std::array<Tensor, 7> kFeedForward = {
    Tensor::kNorm2Output,     Tensor::kRouter,     Tensor::kExpertInput,
    Tensor::kFirstOutput,     Tensor::kActivation, Tensor::kSharedFirstOutput,
    Tensor::kSharedActivation};

// What it has not saved yet when attention runs forward.
constexpr std::array<Tensor, 16> kAfterAttention = {
    Tensor::kNorm2Input,      Tensor::kNorm2Wide,        Tensor::kNorm2Scaled,
    Tensor::kNorm2Output,     Tensor::kRouter,           Tensor::kExpertInput,
    Tensor::kFirstOutput,     Tensor::kActivated,        Tensor::kActivation,
    Tensor::kBeforeWeight,    Tensor::kExpertOutput,     Tensor::kSharedFirstOutput,
    Tensor::kSharedActivated, Tensor::kSharedActivation, Tensor::kSharedOutput,
    Tensor::kHiddenMask2};

template <std::size_t N>
std::int64_t SumOf(const LayerTensors& tensors, const std::array<Tensor, N>& set) {
  std::int64_t sum = 0;
  for (const Tensor t : set) sum += tensors[t];
  return sum;
}

// The dispatcher's frames hold the permuted input, the exchanged tokens, the experts' output and
// its unsorted copy at once; the shared experts' output beside them.
std::int64_t MegatronForward(const MemorySoftware& s, const LayerDims& d, const LayerTensors& off) {
  std::int64_t extra = d.element * d.stream();
  if (d.moe) extra += 4 * d.element * d.routed * d.hidden;
  if (!s.fused_attention) {  // raw scores beside the probabilities, before the feed-forward half
    extra = std::max(extra, d.element * d.scores - SumOf(off, kAfterAttention));
  }
  return extra;
}

std::int64_t FeedForwardBackward(const MemorySoftware& s, const LayerDims& d) {
  const std::int64_t e = d.element, gradient = e * d.stream();
  if (d.moe) {
    return gradient + 2 * e * d.routed * d.hidden + e * d.routed * d.expert_width;
  }
  // TE gathers the output gradient over the sequence-parallel ranks.
  const std::int64_t output = d.sp && s.te ? e * d.tokens * d.hidden : gradient;
  return output + e * d.tokens * d.width * d.inputs();
}

// All-to-all stages queries, keys, values and the output with its gradient (SimuMax v1.2). Ring
// passes keys, values and their gradients on through double buffers; the same bytes stand for it:
// no measured run tells the two apart.
std::int64_t ExchangeBackward(const LayerDims& d) {
  if (!d.context_parallel) return 0;
  return d.element * (d.query() + d.key() + d.value() + 2 * d.attention_output());
}

std::int64_t AttentionBackward(const MemorySoftware& s, const LayerDims& d) {
  const std::int64_t e = d.element;
  std::int64_t extra = 2 * e * d.stream() + e * d.attention_output();
  extra += e * (d.query() + d.key() + d.value());
  // Fused: dQ is accumulated in fp32. Unfused: gradients of probabilities and scores and one more
  // copy (fitted on mlm-ci-070, 073, 083).
  // Megatron-DeepSpeed's fused softmax writes its gradient in place: one copy less.
  const std::int64_t copies = s.framework == Framework::kDeepSpeed ? 2 : 3;
  extra += s.fused_attention ? 4 * d.query() : copies * e * d.scores;
  return extra + ExchangeBackward(d);
}

std::int64_t MegatronBackward(const MemorySoftware& s, const LayerDims& d,
                              const LayerTensors& saved) {
  std::int64_t freed = SumOf(saved, kFeedForward);
  if (!d.moe) freed += saved[Tensor::kHiddenMask2];
  return std::max({FeedForwardBackward(s, d), AttentionBackward(s, d) - freed, std::int64_t{0}});
}

std::int64_t LargestDropped(const LayerTensors& off, const LayerTensors& kept) {
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < off.bytes.size(); ++i) {
    if (kept.bytes[i] == 0) largest = std::max(largest, off.bytes[i]);
  }
  return largest;
}

std::int64_t Recomputed(const LayerTensors& off, const LayerTensors& kept) {
  return std::max<std::int64_t>(0, off.Sum() - kept.Sum());
}

// The widest step of an eager backward: gradients of the products into the feed-forward, the
// residual's, and with sp the gathered output and its gradient.
std::int64_t TorchBackward(const LayerDims& d) {
  const std::int64_t e = d.element;
  std::int64_t widest = 2 * e * d.tokens * d.width;
  if (d.moe) {
    widest = e * d.routed * (2 * d.expert_width + d.hidden);
    widest = std::max(widest, 2 * e * d.tokens * d.shared_width);
  }
  const std::int64_t gather = d.sp ? 2 * e * d.tokens * d.hidden : 0;
  return widest + e * d.stream() + gather;
}

// Unfused attention holds gradients of probabilities and scores in fp32 and bf16 when the
// feed-forward half is gone.
std::int64_t TorchScores(const MemorySoftware& s, const LayerDims& d, const LayerTensors& off) {
  if (s.fused_attention) return 0;
  return (8 + d.element) * d.scores - SumOf(off, kAfterAttention);
}

}  // namespace

std::int64_t ForwardWork(const MemorySoftware& s, const LayerDims& d, const LayerTensors& off,
                         const LayerTensors& kept, Recompute mode) {
  if (!s.megatron_like) {
    // A layer under checkpoint runs forward without autograd; what it would keep bounds what it
    // has.
    return Recomputed(off, kept) + d.element * d.stream();
  }
  std::int64_t extra = MegatronForward(s, d, off);
  if (mode == Recompute::kFull) extra += Recomputed(off, kept);
  return extra;
}

std::int64_t BackwardWork(const MemorySoftware& s, const LayerDims& d, const LayerTensors& off,
                          const LayerTensors& kept, Recompute mode) {
  if (!s.megatron_like) {
    return Recomputed(off, kept) + std::max(TorchBackward(d), TorchScores(s, d, off));
  }
  switch (mode) {
    case Recompute::kOff:
      return MegatronBackward(s, d, off);
    case Recompute::kSelective:
      return MegatronBackward(s, d, kept) + LargestDropped(off, kept);
    case Recompute::kFull:
      return MegatronBackward(s, d, off) + Recomputed(off, kept);
  }
  return 0;
}

std::int64_t ForwardOnlyWork(const MemorySoftware& s, const LayerDims& d) {
  const std::int64_t e = d.element;
  const std::int64_t attention = e * (d.query() + d.key() + d.value() + d.attention_output()) +
                                 (s.fused_attention ? StatisticsBytes(s, d) : 2 * e * d.scores);
  const std::int64_t dense = e * d.tokens * d.width * (d.inputs() + 1);
  const std::int64_t routed = e * d.routed * (d.hidden + d.expert_width * (d.inputs() + 1));
  return 2 * e * d.stream() + std::max({attention, dense, routed});
}

}  // namespace restow::plan
