#include "plan/memory/dims.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace restow::plan {
namespace {

std::int64_t TowerTokens(const Job& job, const KindTable::Entry& kind) {
  const Tower& tower = job.model.towers[static_cast<std::size_t>(kind.tower)];
  const int tokens = job.training.visual_tokens > 0 ? job.training.visual_tokens : tower.patches;
  if (tokens <= 0) {
    ThrowBadInput(fmt::format("tower '{}' states no input size; set training.visual_tokens to its "
                              "tokens per sequence, before merging",
                              tower.name),
                  job.At("training.visual_tokens"));
  }
  return tokens;
}

// Copies of tokens that the experts of a device receive. Under sequence parallelism each of the etp
// ranks of an expert brings tokens of its own (memory-model.md section 5).
std::int64_t RoutedTokens(const MemorySoftware& s, const LayerDims& d, const Experts& experts,
                          int etp) {
  if (s.moe_pad) {  // capacity factor 1, every expert padded to it
    const std::int64_t copies = d.own * experts.per_token;
    return (copies + experts.count - 1) / experts.count * experts.count;
  }
  const std::int64_t copies =
      d.sp || etp == 1 ? d.own * experts.per_token * etp : d.tokens * experts.per_token;
  return static_cast<std::int64_t>(std::floor(static_cast<double>(copies) * s.moe_imbalance));
}

void FillAttention(const Attention& attention, std::int64_t queries, std::int64_t keys,
                   std::int64_t batch, LayerDims* d) {
  d->latent = attention.latent.has_value();
  d->heads = attention.heads / d->tp;
  d->kv_heads = d->latent ? d->heads : std::max(1, attention.kv_heads / d->tp);
  d->query_width = attention.QueryWidth();
  d->value_width = attention.ValueWidth();
  d->scores = batch * attention.heads / d->tp * queries * keys;
}

void FillFeedForward(const MemorySoftware& s, const FeedForward& part, int etp, LayerDims* d) {
  d->gated = part.gated;
  d->moe = part.experts.has_value();
  if (!d->moe) {
    d->width = part.width / d->tp;
    return;
  }
  d->experts = part.experts->count;
  d->expert_width = part.experts->width / etp;
  d->shared_width = part.experts->shared_width / d->tp;
  d->routed = RoutedTokens(s, *d, *part.experts, etp);
}

}  // namespace

int TensorParallelOf(const KindTable::Entry& kind, int tp) {
  if (kind.tower < 0) return tp;
  const bool divides =
      kind.kind->attention.heads % tp == 0 && kind.kind->feed_forward.width % tp == 0;
  return divides ? tp : 1;
}

LayerDims DimsOf(const MemorySoftware& software, const KindTable::Entry& kind,
                 const MicroShape& shape) {
  const Job& job = software.job();
  const bool tower = kind.tower >= 0;
  const std::int64_t sequence = tower ? TowerTokens(job, kind) : job.training.sequence;
  const int cp = tower ? 1 : shape.cp;  // a tower sees whole inputs
  LayerDims d;
  d.kind = kind.kind;
  d.element = software.element;
  d.tp = TensorParallelOf(kind, shape.tp);
  d.batch = shape.micro_batch;
  d.tokens = sequence * shape.micro_batch / cp;
  d.sp = shape.sp && d.tp > 1 && d.tokens % d.tp == 0;
  d.own = d.sp ? d.tokens / d.tp : d.tokens;
  d.all_to_all = cp > 1 && shape.cp_kind == CpKind::kAllToAll;
  d.context_parallel = cp > 1;
  d.hidden = kind.kind->hidden;
  FillAttention(kind.kind->attention, sequence / cp, sequence, shape.micro_batch, &d);
  d.exchanged = shape.ep > 1;
  FillFeedForward(software, kind.kind->feed_forward, shape.etp, &d);
  return d;
}

}  // namespace restow::plan
