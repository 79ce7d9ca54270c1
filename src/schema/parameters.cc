// Exact parameter counts of a layer and a model.
#include "restow/schema/model.h"

namespace restow {
namespace {

std::int64_t Linear(std::int64_t in, std::int64_t out, bool bias) {
  return in * out + (bias ? out : 0);
}

std::int64_t CountLatent(const LatentAttention& latent, std::int64_t hidden, std::int64_t heads,
                         bool output_bias) {
  const std::int64_t query = heads * (latent.nope_dim + latent.rope_dim);
  std::int64_t n = latent.q_rank != 0
                       ? hidden * latent.q_rank + latent.q_rank + latent.q_rank * query
                       : hidden * query;
  n += hidden * (latent.kv_rank + latent.rope_dim) + latent.kv_rank;
  n += latent.kv_rank * heads * (latent.nope_dim + latent.value_dim);
  return n + Linear(heads * latent.value_dim, hidden, output_bias);
}

std::int64_t CountAttention(const Attention& attention, std::int64_t hidden) {
  if (attention.latent) {
    return CountLatent(*attention.latent, hidden, attention.heads, attention.output_bias);
  }
  const std::int64_t query = static_cast<std::int64_t>(attention.heads) * attention.head_dim;
  const std::int64_t key = static_cast<std::int64_t>(attention.kv_heads) * attention.head_dim;
  const std::int64_t value = static_cast<std::int64_t>(attention.kv_heads) * attention.ValueWidth();
  const std::int64_t output = static_cast<std::int64_t>(attention.heads) * attention.ValueWidth();
  std::int64_t n = Linear(hidden, query * (attention.output_gate ? 2 : 1), attention.qkv_bias);
  n += Linear(hidden, key, attention.qkv_bias) + Linear(hidden, value, attention.qkv_bias);
  n += Linear(output, hidden, attention.output_bias);
  if (attention.qk_norm) n += 2 * attention.head_dim;
  return n;
}

std::int64_t Mlp(std::int64_t hidden, std::int64_t width, bool gated, bool bias) {
  return (gated ? 2 : 1) * Linear(hidden, width, bias) + Linear(width, hidden, bias);
}

}  // namespace

bool Model::has_experts() const {
  for (const LayerKind& kind : stack.kinds) {
    if (kind.feed_forward.experts) return true;
  }
  return false;
}

LayerParameters CountParameters(const LayerKind& kind) {
  const std::int64_t hidden = kind.hidden;
  const FeedForward& ffn = kind.feed_forward;
  LayerParameters n;
  n.attention = CountAttention(kind.attention, hidden);
  n.norms = kind.norms * hidden * (kind.norm_bias ? 2 : 1) + kind.extra_parameters;
  if (!ffn.experts) {
    n.feed_forward = Mlp(hidden, ffn.width, ffn.gated, ffn.bias);
    return n;
  }
  const Experts& experts = *ffn.experts;
  const std::int64_t one = Mlp(hidden, experts.width, ffn.gated, experts.expert_bias);
  n.experts = experts.count * one;
  n.idle_experts = (experts.count - experts.per_token) * one;
  n.feed_forward = Linear(hidden, experts.count, false) + (experts.router_bias ? experts.count : 0);
  if (experts.shared_width > 0) {
    n.feed_forward += Mlp(hidden, experts.shared_width, ffn.gated, ffn.bias);
    if (experts.shared_gate) n.feed_forward += hidden;
  }
  return n;
}

std::int64_t CountParameters(const Tower& tower) {
  std::int64_t n = tower.other_parameters;
  for (const int kind : tower.stack.order) {
    n += CountParameters(tower.stack.kinds[static_cast<std::size_t>(kind)]).total();
  }
  return n;
}

ModelParameters CountParameters(const Model& model) {
  const std::int64_t hidden = model.hidden();
  ModelParameters n;
  std::int64_t idle = 0;
  for (const int kind : model.stack.order) {
    const LayerParameters layer =
        CountParameters(model.stack.kinds[static_cast<std::size_t>(kind)]);
    n.total += layer.total();
    idle += layer.idle_experts;
  }
  n.embedding = hidden * model.vocab;
  n.head = model.tied ? 0 : hidden * model.vocab;
  if (model.head_bias) n.head += model.vocab;
  for (const Tower& tower : model.towers) n.towers += CountParameters(tower);
  n.total += n.embedding + n.head + n.towers + model.projector_parameters + model.other_parameters +
             hidden * model.positions + hidden * (model.final_norm_bias ? 2 : 1);
  n.active = n.total - idle;
  if (model.mtp_layers > 0) {
    const LayerParameters layer =
        CountParameters(model.stack.kinds[static_cast<std::size_t>(model.mtp_kind)]);
    // Projection of the joined hidden states and its norms, beside one layer (DeepSeek-V3,
    // arXiv:2412.19437, section 2.2); embedding and head are shared with the model.
    n.mtp = model.mtp_layers * (layer.total() + 2 * hidden * hidden + 3 * hidden);
  }
  return n;
}

}  // namespace restow
