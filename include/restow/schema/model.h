// What is trained: a stack of layers of a few kinds, its vocabulary, and for multimodal models the
// towers in front of it. Everything a price needs and nothing it does not. `restow.model/1`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace restow {

// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1).
struct LatentAttention {
  int q_rank = 0;  // 0: queries are projected directly
  int kv_rank = 0;
  int nope_dim = 0;   // width of a head's query and key without rotary embedding
  int rope_dim = 0;   // width of the rotary part, shared by all heads on the key side
  int value_dim = 0;  // width of a head's value
};

// Attention of one layer. Widths are of one head, in elements.
struct Attention {
  int heads = 0;
  int kv_heads = 0;  // == heads: multi-head; 1: multi-query; unused with `latent`
  int head_dim = 0;
  int value_dim = 0;  // 0: as head_dim
  std::optional<LatentAttention> latent;
  bool causal = true;
  int window = 0;  // tokens a query sees at most; 0: all
  bool qkv_bias = false;
  bool output_bias = false;
  bool qk_norm = false;
  bool output_gate = false;  // the query projection also yields a gate of the output's width

  // Widths that the score product and the value product see.
  int QueryWidth() const { return latent ? latent->nope_dim + latent->rope_dim : head_dim; }
  int ValueWidth() const {
    if (latent) return latent->value_dim;
    return value_dim != 0 ? value_dim : head_dim;
  }
};

// Mixture of experts of one layer.
struct Experts {
  int count = 0;
  int per_token = 0;
  int width = 0;         // of one expert
  int shared_width = 0;  // total width of the shared experts; 0: none
  bool shared_gate = false;
  bool router_bias = false;
  bool expert_bias = false;
};

// Feed-forward part of one layer: dense where `experts` is empty.
struct FeedForward {
  int width = 0;      // of the dense branch; with `experts` set, unused
  bool gated = true;  // two products in (gate and up), one out
  bool bias = false;
  std::optional<Experts> experts;
};

// One kind of layer; a model has few. `extra_parameters` counts parameters that are no product and
// no norm counted below (attention sinks, per-layer scalars); they are replicated over tp.
struct LayerKind {
  std::string name;  // "dense", "moe", "dense-window", "vision"
  int hidden = 0;
  Attention attention;
  FeedForward feed_forward;
  int norms = 2;           // norms of width `hidden`
  bool norm_bias = false;  // LayerNorm with bias instead of RMSNorm
  std::int64_t extra_parameters = 0;
};

// Kinds and their order. `order[i]` indexes `kinds`.
struct LayerStack {
  std::vector<LayerKind> kinds;
  std::vector<int> order;

  int layers() const { return static_cast<int>(order.size()); }
};

// An encoder in front of the language model (vision, audio). It runs on the first stage.
struct Tower {
  std::string name;  // as the configuration calls it: "vision_tower", "visual"
  LayerStack stack;
  std::int64_t other_parameters =
      0;            // patch embedding, positions, final norm, merger inside the tower
  int patches = 0;  // tokens of one default input through the tower, before merging; 0: unknown
  int merge = 1;    // tower tokens that become one token of the language model
};

// Field of a configuration that was read but decides nothing here, or was not known.
struct FieldNote {
  std::string path;
  std::string reason;
};

struct Model {
  std::string name;
  std::string family;
  LayerStack stack;  // the language model's
  int vocab = 0;
  bool tied = false;  // embedding and output share one table
  bool head_bias = false;
  int positions = 0;  // learned position embeddings (rows); 0: none
  bool final_norm_bias = false;
  std::int64_t other_parameters =
      0;               // what is in no layer, table or final norm; replicated, first stage
  int mtp_layers = 0;  // multi-token prediction depth; each is one layer of kind `mtp_kind`
  int mtp_kind = 0;    // index into stack.kinds
  std::vector<Tower> towers;
  std::int64_t projector_parameters = 0;  // between towers and language model
  int context = 0;                        // longest sequence the configuration states; 0: unknown
  std::vector<FieldNote> ignored;
  std::vector<FieldNote> unknown;
  std::vector<FieldNote> assumed;  // not stated; the family's default, named in `reason`, was used

  int hidden() const { return stack.kinds.empty() ? 0 : stack.kinds.front().hidden; }
  bool multimodal() const { return !towers.empty(); }
  bool has_experts() const;
};

// Parts of a layer's parameters, whole model (nothing divided).
struct LayerParameters {
  std::int64_t attention = 0;
  std::int64_t feed_forward = 0;  // dense branch, shared experts, router
  std::int64_t experts = 0;       // all routed experts
  std::int64_t norms = 0;         // norms and extras
  std::int64_t idle_experts = 0;  // of `experts`: not active for a token

  std::int64_t total() const { return attention + feed_forward + experts + norms; }
};

LayerParameters CountParameters(const LayerKind& kind);

// Exact counts: embeddings included, tied tables once, multi-token prediction apart.
struct ModelParameters {
  std::int64_t total = 0;
  std::int64_t active = 0;  // total less the routed experts a token does not visit
  std::int64_t mtp = 0;     // not in total
  std::int64_t embedding = 0;
  std::int64_t head = 0;  // 0 when tied
  std::int64_t towers = 0;
};

ModelParameters CountParameters(const Model& model);

// Parameters of the whole of one tower.
std::int64_t CountParameters(const Tower& tower);

}  // namespace restow
