// What most families state in the same way: sizes, heads, windows, experts, and their lay-out.
#include <fmt/format.h>

#include "io/hugging_face.h"

namespace restow::hugging_face {
namespace {

// The first that is stated; the others say something else or the same.
void ReadContext(Fields& f) {
  for (const std::string_view name : {"max_position_embeddings", "n_positions", "max_seq_len",
                                      "seq_length", "max_sequence_length", "n_ctx"}) {
    const int context = f.CountOr({name}, 0, kLongest);
    if (f.model().context == 0) f.model().context = context;
  }
}

void RequireMultiple(const Fields& f, FieldNames names, int value, int divisor,
                     const std::string& meaning) {
  if (value % divisor == 0) return;
  const Node* at = f.Peek(names);
  const std::string path = at != nullptr ? at->path : FieldPath(f.node(), *names.begin());
  ThrowBadInput(fmt::format("{} is {}; {}", path, divisor, meaning),
                at != nullptr ? at->where : f.node().where);
}

// Whether each layer of `layer_types` has the window.
std::vector<bool> ReadLayerTypes(const Node& types, int layers) {
  const std::vector<Node>& items = types.AsList();
  if (static_cast<int>(items.size()) != layers) {
    ThrowBadInput(
        fmt::format("{} names {} layers; the model has {}", types.path, items.size(), layers),
        types.where);
  }
  std::vector<bool> windowed;
  for (const Node& item : items) {
    windowed.push_back(item.AsString() != "full_attention");  // others: RefuseUnpriced
  }
  return windowed;
}

int ReadWindowSize(Fields& f) {
  return f.CountOr({"sliding_window", "attention_chunk_size"}, 0, kLongest);
}

void SetWindows(Fields& f, Blueprint& plan, const std::vector<bool>& windowed, int window) {
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    if (!windowed[i]) continue;
    if (window == 0) f.Missing({"sliding_window"}, "layer_types has layers with a window");
    plan.windows[i] = window;
  }
}

LayerKind KindOf(const Blueprint& plan, std::size_t layer) {
  LayerKind kind = plan.layer;
  kind.name = plan.sparse[layer] ? "moe" : "dense";
  if (plan.sparse[layer]) kind.feed_forward.experts = plan.experts;
  if (plan.windows[layer] == 0) return kind;
  kind.name += "-window";
  if (plan.windowed) kind.attention = *plan.windowed;
  kind.attention.window = plan.windows[layer];
  kind.extra_parameters += plan.windowed_extra;
  return kind;
}

int IndexOfKind(LayerStack& stack, const LayerKind& kind) {
  for (std::size_t i = 0; i < stack.kinds.size(); ++i) {
    if (stack.kinds[i].name == kind.name) return static_cast<int>(i);
  }
  stack.kinds.push_back(kind);
  return static_cast<int>(stack.kinds.size()) - 1;
}

}  // namespace

Blueprint ReadFrame(Fields& f) {
  Blueprint plan;
  const int layers =
      f.Size({"num_hidden_layers", "num_layers", "n_layers", "n_layer"}, kMostLayers);
  plan.windows.assign(static_cast<std::size_t>(layers), 0);
  plan.sparse.assign(static_cast<std::size_t>(layers), false);
  plan.layer.hidden = f.Size({"hidden_size", "n_embd", "n_embed", "d_model"});
  plan.layer.attention.heads =
      f.Size({"num_attention_heads", "n_head", "n_heads", "num_heads"}, kMostHeads);
  // A padded size, where both are stated, is the table's.
  const std::optional<int> padded = f.SizeIfStated({"padded_vocab_size"});
  f.model().vocab = padded ? *padded : f.Size({"vocab_size"});
  if (padded) f.Take({"vocab_size"});
  ReadContext(f);
  return plan;
}

void ReadHeads(Fields& f, Blueprint& plan) {
  ReadHeadWidth(f, plan);
  SetKeyHeads(
      f, plan,
      f.SizeOr({"num_key_value_heads", "num_kv_heads"}, plan.layer.attention.heads, kMostHeads));
}

void SetKeyHeads(Fields& f, Blueprint& plan, int kv_heads) {
  Attention& attention = plan.layer.attention;
  attention.kv_heads = kv_heads;
  RequireMultiple(f,
                  {"num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads",
                   "multi_query_group_num", "num_attention_groups"},
                  attention.heads, kv_heads,
                  fmt::format("it must divide the {} attention heads", attention.heads));
}

void ReadHeadWidth(Fields& f, Blueprint& plan) {
  Attention& attention = plan.layer.attention;
  attention.kv_heads = attention.heads;
  if (const auto stated = f.SizeIfStated({"head_dim", "kv_channels"}, kMostHeads)) {
    attention.head_dim = *stated;
    return;
  }
  RequireMultiple(
      f, {"num_attention_heads", "n_head", "n_heads", "num_heads"}, plan.layer.hidden,
      attention.heads,
      fmt::format("it must divide the hidden size {}, or head_dim be stated", plan.layer.hidden));
  attention.head_dim = plan.layer.hidden / attention.heads;
}

Blueprint ReadDecoder(Fields& f) {
  Blueprint plan = ReadFrame(f);
  ReadHeads(f, plan);
  plan.layer.feed_forward.width = f.Size({"intermediate_size"});
  return plan;
}

void ReadLatent(Fields& f, Blueprint& plan, int usual_value_dim) {
  Attention& attention = plan.layer.attention;
  LatentAttention latent;
  latent.q_rank = f.CountOr({"q_lora_rank"}, 0);
  latent.kv_rank = f.Size({"kv_lora_rank"});
  latent.nope_dim = f.Size({"qk_nope_head_dim"}, kMostHeads);
  latent.rope_dim = f.Size({"qk_rope_head_dim"}, kMostHeads);
  latent.value_dim = usual_value_dim > 0 ? f.SizeOr({"v_head_dim"}, usual_value_dim, kMostHeads)
                                         : f.Size({"v_head_dim"}, kMostHeads);
  // A stated head_dim is not the width of these heads; every head has its own key and value.
  f.Take({"head_dim"});
  f.Take({"num_key_value_heads"});
  attention.kv_heads = attention.heads;
  attention.head_dim = latent.nope_dim + latent.rope_dim;
  attention.latent = latent;
  if (f.FlagOr({"attention_bias"}, false)) {
    attention.output_bias = true;
    plan.layer.extra_parameters += latent.q_rank + latent.kv_rank + latent.rope_dim;
  }
}

void ReadTied(Fields& f, bool when_absent) {
  f.model().tied = f.FlagOr({"tie_word_embeddings"}, when_absent);
}

void SetAttentionBias(Blueprint& plan, bool bias) {
  plan.layer.attention.qkv_bias = bias;
  plan.layer.attention.output_bias = bias;
}

void AddWideNorms(Blueprint& plan) {
  const Attention& attention = plan.layer.attention;
  plan.layer.extra_parameters +=
      static_cast<std::int64_t>(attention.heads + attention.kv_heads) * attention.head_dim;
}

void ReadWindows(Fields& f, Blueprint& plan, int pattern) {
  const int window = ReadWindowSize(f);
  if (const Node* types = f.Take({"layer_types"})) {
    SetWindows(f, plan, ReadLayerTypes(*types, plan.layers()), window);
    return;
  }
  for (int i = 0; i < plan.layers(); ++i) {
    const bool full = pattern > 0 && (i + 1) % pattern == 0;
    if (!full) plan.windows[static_cast<std::size_t>(i)] = window;
  }
}

void ReadOptionalWindows(Fields& f, Blueprint& plan) {
  const bool used = f.FlagOr({"use_sliding_window"}, false);
  const int window = ReadWindowSize(f);
  const int first = f.CountOr({"max_window_layers"}, 0, kMostLayers);
  const Node* types = f.Take({"layer_types"});
  std::vector<bool> windowed;
  for (int i = 0; i < plan.layers(); ++i) windowed.push_back(i >= first);
  if (types != nullptr) windowed = ReadLayerTypes(*types, plan.layers());
  if (used && window > 0) SetWindows(f, plan, windowed, window);
}

Experts ReadExperts(Fields& f, FieldNames width_names) {
  Experts experts;
  experts.count = f.Size(
      {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"}, kMostExperts);
  const FieldNames visited = {"num_experts_per_tok", "num_experts_per_token", "experts_per_token",
                              "top_k_experts", "moe_top_k"};
  experts.per_token = f.Size(visited, kMostExperts);
  if (experts.per_token > experts.count) {
    const Node* at = f.Peek(visited);
    ThrowBadInput(
        fmt::format("{} is {}; at most all {} experts can be visited",
                    FieldPath(f.node(), "num_experts_per_tok"), experts.per_token, experts.count),
        at != nullptr ? at->where : f.node().where);
  }
  experts.width = f.Size(width_names);
  return experts;
}

void AllSparse(Blueprint& plan) { plan.sparse.assign(plan.sparse.size(), true); }

void ReadDenseHead(Fields& f, Blueprint& plan) {
  const int dense = f.CountOr({"first_k_dense_replace"}, 0, kMostLayers);
  const Node* frequency = f.Take({"moe_layer_freq"});
  if (frequency != nullptr && frequency->is_list()) {
    if (static_cast<int>(frequency->items.size()) != plan.layers()) {
      ThrowBadInput(fmt::format("{} has {} entries; the model has {} layers", frequency->path,
                                frequency->items.size(), plan.layers()),
                    frequency->where);
    }
    for (int i = 0; i < plan.layers(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      plan.sparse[at] = i >= dense && frequency->items[at].AsInt(0, 1) == 1;
    }
    return;
  }
  const int step = frequency != nullptr ? frequency->AsInt(1, kMostLayers) : 1;
  for (int i = 0; i < plan.layers(); ++i) {
    plan.sparse[static_cast<std::size_t>(i)] = i >= dense && i % step == 0;
  }
}

void ReadSparseStep(Fields& f, Blueprint& plan) {
  const int step = f.SizeOr({"decoder_sparse_step"}, 1, kMostLayers);
  for (int i = 0; i < plan.layers(); ++i) {
    plan.sparse[static_cast<std::size_t>(i)] = (i + 1) % step == 0;
  }
  const Node* dense = f.Take({"mlp_only_layers"});
  if (dense == nullptr) return;
  for (const Node& layer : dense->AsList()) {
    plan.sparse[static_cast<std::size_t>(layer.AsInt(0, plan.layers() - 1))] = false;
  }
}

void LayOut(const Blueprint& plan, Model& model) {
  model.stack = {};
  for (std::size_t i = 0; i < plan.windows.size(); ++i) {
    model.stack.order.push_back(IndexOfKind(model.stack, KindOf(plan, i)));
  }
  model.final_norm_bias = plan.layer.norm_bias;
}

void SetPrediction(Model& model, int layers) {
  model.mtp_layers = layers;
  model.mtp_kind = layers > 0 ? model.stack.order.back() : 0;
}

}  // namespace restow::hugging_face
