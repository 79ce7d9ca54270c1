// Decoders of the GPT-2 line: LayerNorm, feed-forwards of two products, learned or linear-bias
// positions or none.
#include <fmt/format.h>

#include "io/hugging_face.h"

namespace restow::hugging_face {
namespace {

// LayerNorm with bias, biases in every product, an ungated feed-forward four times as wide as the
// layer unless stated.
Blueprint ReadClassic(Fields& f, FieldNames width_names) {
  Blueprint plan = ReadFrame(f);
  ReadHeadWidth(f, plan);
  SetAttentionBias(plan, true);
  plan.layer.norm_bias = true;
  plan.layer.feed_forward.gated = false;
  plan.layer.feed_forward.bias = true;
  plan.layer.feed_forward.width = f.SizeOr(width_names, 4 * plan.layer.hidden);
  return plan;
}

void ReadPositions(Fields& f, Model& model) {
  model.positions = f.Size({"n_positions", "max_position_embeddings"});
}

void Gpt2(Fields& f, Model& model) {
  const Blueprint plan = ReadClassic(f, {"n_inner"});
  ReadPositions(f, model);
  ReadTied(f, true);
  LayOut(plan, model);
}

void GptBigCode(Fields& f, Model& model) {
  Blueprint plan = ReadClassic(f, {"n_inner"});
  if (f.FlagOr({"multi_query"}, true)) SetKeyHeads(f, plan, 1);
  ReadPositions(f, model);
  ReadTied(f, true);
  LayOut(plan, model);
}

// `attention_types` is a list of [[type, ...], times].
void ReadLocalLayers(Fields& f, Blueprint& plan) {
  const int window = f.SizeOr({"window_size"}, 256, kLongest);
  f.Take({"attention_layers"});
  const Node* types = f.Take({"attention_types"});
  if (types == nullptr) f.Missing({"attention_types"}, "[[[\"global\", \"local\"], times]]");
  std::vector<bool> local;
  for (const Node& group : types->AsList()) {
    if (group.AsList().size() != 2) {
      ThrowBadInput(fmt::format("{} is {}; a list of types and how often it repeats is expected",
                                group.path, group.Written()),
                    group.where);
    }
    const int times = group.items[1].AsInt(1, kMostLayers);
    for (int i = 0; i < times; ++i) {
      for (const Node& type : group.items[0].AsList()) local.push_back(type.AsString() == "local");
    }
  }
  if (static_cast<int>(local.size()) != plan.layers()) {
    ThrowBadInput(fmt::format("{} describes {} layers; the model has {}", types->path, local.size(),
                              plan.layers()),
                  types->where);
  }
  for (std::size_t i = 0; i < local.size(); ++i) plan.windows[i] = local[i] ? window : 0;
}

void GptNeo(Fields& f, Model& model) {
  Blueprint plan = ReadClassic(f, {"intermediate_size"});
  plan.layer.attention.qkv_bias = false;
  ReadLocalLayers(f, plan);
  ReadPositions(f, model);
  ReadTied(f, true);
  LayOut(plan, model);
}

void GptNeoX(Fields& f, Model& model) {
  Blueprint plan = ReadClassic(f, {"intermediate_size"});
  SetAttentionBias(plan, f.FlagOr({"attention_bias"}, true));
  ReadTied(f, false);
  LayOut(plan, model);
}

// Attention and feed-forward side by side behind one norm; the head has a bias.
void GptJ(Fields& f, Model& model) {
  Blueprint plan = ReadClassic(f, {"n_inner"});
  SetAttentionBias(plan, false);
  plan.layer.norms = 1;
  ReadTied(f, false);
  model.head_bias = true;
  LayOut(plan, model);
}

void Bloom(Fields& f, Model& model) {
  const Blueprint plan = ReadClassic(f, {"n_inner"});
  model.other_parameters = LayerNorm(plan.layer.hidden);  // behind the embedding
  ReadTied(f, true);
  LayOut(plan, model);
}

// Key-value heads: as stated with the newer decoder, one with multi_query, else one per head.
int FalconKeyHeads(Fields& f, int heads, bool newer) {
  const bool multi_query = f.FlagOr({"multi_query"}, true);
  const int stated = f.SizeOr({"num_kv_heads", "n_head_kv"}, heads, kMostHeads);
  if (newer) return stated;
  return multi_query ? 1 : heads;
}

int FalconNorms(Fields& f, bool newer) {
  const bool parallel = f.FlagOr({"parallel_attn"}, true);
  const int stated = f.CountOr({"num_ln_in_parallel_attn"}, newer ? 2 : 1, 2);
  if (newer) return stated == 2 ? 2 : 1;
  return parallel ? 1 : 2;
}

// `Source:` FalconConfig and FalconDecoderLayer; Falcon-7B and 40B differ in heads and norms.
void Falcon(Fields& f, Model& model) {
  Blueprint plan = ReadClassic(f, {"ffn_hidden_size"});
  const bool newer = f.FlagOr({"new_decoder_architecture"}, f.Peek({"n_head_kv"}) != nullptr);
  SetKeyHeads(f, plan, FalconKeyHeads(f, plan.layer.attention.heads, newer));
  plan.layer.norms = FalconNorms(f, newer);
  const bool bias = f.FlagOr({"bias"}, false);
  SetAttentionBias(plan, bias);
  plan.layer.feed_forward.bias = bias;
  ReadTied(f, true);
  LayOut(plan, model);
}

int MptKeyHeads(Fields& attention, int heads) {
  const std::string type = attention.TextOr({"attn_type"}, "multihead_attention");
  const int stated = attention.SizeOr({"kv_n_heads"}, heads, kMostHeads);
  return type == "multiquery_attention" ? 1 : stated;
}

void ReadMptAttention(Fields& attention, Blueprint& plan, Model& model, bool learned, bool bias) {
  SetKeyHeads(attention, plan, MptKeyHeads(attention, plan.layer.attention.heads));
  const bool alibi = attention.FlagOr({"alibi"}, false);
  const bool rotary = attention.FlagOr({"rope"}, false);
  if (learned && !alibi && !rotary) model.positions = model.context;
  if (attention.FlagOr({"qk_ln"}, false)) {
    AddWideNorms(plan);
    if (bias) AddWideNorms(plan);
  }
}

// `Source:` MPTModel of llm-foundry: linear-bias attention takes the place of learned positions.
void Mpt(Fields& f, Model& model) {
  Blueprint plan = ReadFrame(f);
  ReadHeadWidth(f, plan);
  const bool bias = !f.FlagOr({"no_bias"}, true);
  SetAttentionBias(plan, bias);
  plan.layer.norm_bias = bias;
  plan.layer.feed_forward.gated = false;
  plan.layer.feed_forward.bias = bias;
  plan.layer.feed_forward.width = f.SizeOr({"expansion_ratio"}, 4, 64) * plan.layer.hidden;
  const bool learned = f.FlagOr({"learned_pos_emb"}, true);
  if (const Node* config = f.Take({"attn_config"})) {
    Fields attention(*config, model);
    ReadMptAttention(attention, plan, model, learned, bias);
    NoteUntaken(attention, model);
  } else if (learned) {
    model.positions = model.context;
  }
  ReadTied(f, true);
  LayOut(plan, model);
}

// Position rows 0 and 1 are never used but exist. `Source:` OPTLearnedPositionalEmbedding.
void Opt(Fields& f, Model& model) {
  Blueprint plan = ReadClassic(f, {"ffn_dim"});
  const bool bias = f.FlagOr({"enable_bias"}, true);
  SetAttentionBias(plan, bias);
  plan.layer.feed_forward.bias = bias;
  const int embedding = f.SizeOr({"word_embed_proj_dim"}, plan.layer.hidden);
  if (embedding != plan.layer.hidden || !f.FlagOr({"do_layer_norm_before"}, true) ||
      f.FlagOr({"_remove_final_layer_norm"}, false)) {
    ThrowUnsupported(
        "family 'opt' with word_embed_proj_dim other than hidden_size, or without a final "
        "norm (OPT-350M), cannot be priced",
        f.node().where);
  }
  model.positions = f.Size({"max_position_embeddings"}) + 2;
  ReadTied(f, true);
  LayOut(plan, model);
}

constexpr Family kFamilies[] = {
    {"gpt2", "GPT2LMHeadModel", Gpt2},
    {"gpt_bigcode", "GPTBigCodeForCausalLM", GptBigCode},
    {"gpt_neo", "GPTNeoForCausalLM", GptNeo},
    {"gpt_neox", "GPTNeoXForCausalLM", GptNeoX},
    {"gpt-neox", "", GptNeoX},
    {"gptj", "GPTJForCausalLM", GptJ},
    {"codegen", "CodeGenForCausalLM", GptJ},
    {"bloom", "BloomForCausalLM", Bloom},
    {"falcon", "FalconForCausalLM", Falcon},
    {"RefinedWeb", "RWForCausalLM", Falcon},
    {"RefinedWebModel", "", Falcon},
    {"mpt", "MptForCausalLM", Mpt},
    {"opt", "OPTForCausalLM", Opt},
};

}  // namespace

std::span<const Family> ClassicFamilies() { return kFamilies; }

}  // namespace restow::hugging_face
