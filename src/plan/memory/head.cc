// Final norm, output layer and loss, and what multi-token prediction keeps.
// Source: memory-model.md section 8.
#include <algorithm>

#include "plan/memory/dims.h"
#include "plan/memory/memory.h"
#include "plan/memory/saved.h"

namespace restow::plan {
namespace {

struct HeadDims {
  std::int64_t element, tokens, own, hidden, rows;
  std::int64_t logits;  // elements
  int tp;
  bool sp;
};

HeadDims HeadDimsOf(const MemorySoftware& s, const MicroShape& shape) {
  const Job& job = s.job();
  const std::int64_t multiple = static_cast<std::int64_t>(s.vocabulary_unit) * shape.tp;
  const std::int64_t rows = (job.model.vocab + multiple - 1) / multiple * multiple / shape.tp;
  const std::int64_t tokens = Tokens(job, shape);
  return {s.element, tokens,  OwnTokens(job, shape), job.model.hidden(), rows, tokens * rows,
          shape.tp,  shape.sp};
}

struct Pair {
  std::int64_t forward, backward;
};

// Chunked under Megatron-LM: bf16 logits of every token, their fp32 copy of an eighth at a time.
Pair MegatronLogits(const MemorySoftware& s, const HeadDims& d) {
  const std::int64_t e = d.element;
  const std::int64_t wgrad = s.te && s.wgrad_fusion ? 0 : e * d.rows * d.hidden;
  const std::int64_t input = e * d.tokens * d.hidden;
  const std::int64_t from_logits = e * d.logits + input + wgrad;
  if (s.loss == LossStyle::kMegatronFused) {
    return {e * d.logits, from_logits + (d.sp ? e * d.own * d.hidden : 0)};
  }
  if (s.loss == LossStyle::kMegatron2022) {
    const std::int64_t bytes = (e + 8) * d.logits;
    return {bytes, std::max(bytes, from_logits)};
  }
  const std::int64_t wide =
      s.loss == LossStyle::kMegatronChunked ? (4 * d.logits + 7) / 8 : 4 * d.logits;
  return {e * d.logits + wide, std::max(e * d.logits + wide, from_logits)};
}

Pair MegatronHead(const MemorySoftware& s, const HeadDims& d) {
  const std::int64_t norm = 2 * d.element * d.own * d.hidden;
  const std::int64_t gather = d.sp ? d.element * d.tokens * d.hidden : 0;
  const Pair logits = MegatronLogits(s, d);
  return {norm + gather + logits.forward, norm + gather + logits.backward};
}

// Bytes alive per logit, forward and backward.
Pair TorchPerLogit(const MemorySoftware& s) {
  switch (s.loss) {
    case LossStyle::kTorchCompiled:  // bf16 logits and their gradient
      return {4, 4};
    case LossStyle::kTorchEager2024:  // logits, bf16 log-softmax and two gradients
      return {8, 8};
    case LossStyle::kTorchEager:  // logits, fp32 copy, log-softmax; then log-softmax, two gradients
      return {s.eager ? 10 : 12, 12};
    default:
      return {12, 12};
  }
}

std::int64_t EagerNormBytes(const MemorySoftware& s, const HeadDims& d) {
  if (!s.eager) return 0;
  return d.own * d.hidden * (4 + 2 * d.element);  // fp32 input, normalised value, output
}

Pair TorchHead(const MemorySoftware& s, const HeadDims& d) {
  const std::int64_t norm = EagerNormBytes(s, d);
  if (s.loss == LossStyle::kTorchChunked) {
    const std::int64_t bytes = norm + 4 * d.logits + (4 * d.logits + 7) / 8;
    return {bytes, bytes};
  }
  if (d.tp > 1 && s.framework == Framework::kTorchtitan) {
    // Loss parallel: shifted, exponential and product copies in fp32; the gathered input and its
    // gradient (fitted on titan-011, 012).
    const std::int64_t bytes = 16 * d.logits + 2 * d.element * d.tokens * d.hidden;
    return {bytes, bytes};
  }
  const Pair per_logit = TorchPerLogit(s);
  Pair bytes = {norm + per_logit.forward * d.logits, norm + per_logit.backward * d.logits};
  if (s.eager) {  // gradients of logits, of their input and of the table
    const std::int64_t products = d.element * (d.logits + d.tokens * d.hidden + d.rows * d.hidden);
    bytes.backward = std::max(bytes.backward, norm + products);
  }
  return bytes;
}

// One layer, the joined inputs with their norms, and logits that wait for their own backward.
std::int64_t MtpSaved(const MemorySoftware& s, const KindTable& kinds, const MicroShape& shape,
                      const HeadDims& d, Recompute mode) {
  const Model& model = s.job().model;
  if (model.mtp_layers == 0) return 0;
  const KindTable::Entry& kind = kinds.entries[static_cast<std::size_t>(model.mtp_kind)];
  const std::int64_t layer = KeptTensors(s, DimsOf(s, kind, shape), mode).Sum();
  const std::int64_t per_logit = s.loss == LossStyle::kMegatronFused ? d.element : 4;
  return model.mtp_layers * (layer + 4 * d.element * d.own * d.hidden + per_logit * d.logits);
}

}  // namespace

HeadBytes PriceHeadBytes(const MemorySoftware& software, const KindTable& kinds,
                         const MicroShape& shape, Recompute mode) {
  const HeadDims dims = HeadDimsOf(software, shape);
  const Pair head =
      software.megatron_like ? MegatronHead(software, dims) : TorchHead(software, dims);
  return {Bytes(head.forward), Bytes(head.backward),
          Bytes(MtpSaved(software, kinds, shape, dims, mode))};
}

}  // namespace restow::plan
