// Decoders with mixtures of experts.
#include <fmt/format.h>

#include <algorithm>

#include "io/hugging_face.h"

namespace restow::hugging_face {
namespace {

// Each expert is a Mistral feed-forward: intermediate_size is the width of one.
Blueprint ReadMixtral(Fields& f) {
  Blueprint plan = ReadFrame(f);
  ReadHeads(f, plan);
  plan.experts = ReadExperts(f, {"intermediate_size"});
  AllSparse(plan);
  ReadTied(f, false);
  return plan;
}

void Mixtral(Fields& f, Model& model) {
  Blueprint plan = ReadMixtral(f);
  ReadWindows(f, plan, 0);
  LayOut(plan, model);
}

// LayerNorm, biases in attention, and an output bias.
void PhiMoe(Fields& f, Model& model) {
  Blueprint plan = ReadMixtral(f);
  SetAttentionBias(plan, f.FlagOr({"attention_bias"}, false));
  plan.layer.norm_bias = true;
  model.head_bias = f.FlagOr({"lm_head_bias"}, false);
  ReadWindows(f, plan, 0);
  LayOut(plan, model);
}

// Norms of query and key over their whole width. `Source:` OLMoE, arXiv:2409.02060, section 2.
void OlmoE(Fields& f, Model& model) {
  Blueprint plan = ReadMixtral(f);
  SetAttentionBias(plan, f.FlagOr({"attention_bias"}, false));
  AddWideNorms(plan);
  LayOut(plan, model);
}

void GraniteMoe(Fields& f, Model& model) {
  Blueprint plan = ReadMixtral(f);
  SetAttentionBias(plan, f.FlagOr({"attention_bias"}, false));
  plan.experts->shared_width = f.CountOr({"shared_intermediate_size"}, 0);
  LayOut(plan, model);
}

Blueprint ReadQwenMoe(Fields& f) {
  Blueprint plan = ReadFrame(f);
  ReadHeads(f, plan);
  plan.experts = ReadExperts(f, {"moe_intermediate_size"});
  ReadSparseStep(f, plan);
  const bool all = std::find(plan.sparse.begin(), plan.sparse.end(), false) == plan.sparse.end();
  plan.layer.feed_forward.width =
      all ? f.CountOr({"intermediate_size"}, 0) : f.Size({"intermediate_size"});
  ReadOptionalWindows(f, plan);
  ReadTied(f, false);
  return plan;
}

// The shared expert has a gate of its own. `Source:` Qwen2MoeSparseMoeBlock.
void Qwen2Moe(Fields& f, Model& model) {
  Blueprint plan = ReadQwenMoe(f);
  plan.layer.attention.qkv_bias = f.FlagOr({"qkv_bias", "attention_bias"}, true);
  plan.experts->shared_width = f.Size({"shared_expert_intermediate_size"});
  plan.experts->shared_gate = true;
  LayOut(plan, model);
}

void Qwen3Moe(Fields& f, Model& model) {
  Blueprint plan = ReadQwenMoe(f);
  SetAttentionBias(plan, f.FlagOr({"attention_bias", "qkv_bias"}, false));
  plan.layer.attention.qk_norm = f.FlagOr({"use_qk_norm"}, true);
  if (f.CountOr({"shared_expert_intermediate_size"}, 0) > 0) {
    ThrowUnsupported(
        "family 'qwen3_moe' has no shared expert; shared_expert_intermediate_size is "
        "expected to be 0",
        f.Peek({"shared_expert_intermediate_size"})->where);
  }
  LayOut(plan, model);
}

// Routed experts of moe_intermediate_size and shared ones counted in such experts. Without routed
// experts the model is dense. `Source:` DeepSeekMoE, arXiv:2401.06066, section 3.
void ReadDeepSeekExperts(Fields& f, Blueprint& plan) {
  plan.layer.feed_forward.width = f.Size({"intermediate_size"});
  if (f.Peek({"n_routed_experts", "num_experts"}) == nullptr) return;
  plan.experts = ReadExperts(f, {"moe_intermediate_size"});
  const int shared = f.CountOr({"n_shared_experts", "num_shared_experts"}, 0, 64);
  plan.experts->shared_width = shared * plan.experts->width;
  ReadDenseHead(f, plan);
}

// Balancing without a loss adds a bias per expert to the router's scores. `Source:` DeepSeek-V3,
// arXiv:2412.19437, section 2.1.2.
bool HasBalancingBias(Fields& f, bool usual) {
  const Node* method = f.Peek({"topk_method"});
  return method != nullptr ? method->AsString() == "noaux_tc" : usual;
}

void ReadDeepSeek(Fields& f, Model& model, bool latent, bool balancing_bias) {
  Blueprint plan = ReadFrame(f);
  if (latent) {
    ReadLatent(f, plan);
  } else {
    ReadHeads(f, plan);
    SetAttentionBias(plan, f.FlagOr({"attention_bias"}, false));
  }
  ReadDeepSeekExperts(f, plan);
  if (plan.experts) plan.experts->router_bias = HasBalancingBias(f, balancing_bias);
  ReadTied(f, false);
  LayOut(plan, model);
  SetPrediction(model, f.CountOr({"num_nextn_predict_layers"}, 0, kMostLayers));
}

void DeepSeekMoe(Fields& f, Model& model) { ReadDeepSeek(f, model, false, false); }
void DeepSeekV2(Fields& f, Model& model) { ReadDeepSeek(f, model, true, false); }
void DeepSeekV3(Fields& f, Model& model) { ReadDeepSeek(f, model, true, true); }

// DeepSeek's experts behind grouped-query attention.
Blueprint ReadGlmMoe(Fields& f) {
  Blueprint plan = ReadFrame(f);
  ReadHeads(f, plan);
  ReadDeepSeekExperts(f, plan);
  if (plan.experts) plan.experts->router_bias = true;
  ReadTied(f, false);
  return plan;
}

void ReadGlm4Moe(Fields& f, Model& model, bool usual_bias) {
  Blueprint plan = ReadGlmMoe(f);
  plan.layer.attention.qkv_bias = f.FlagOr({"attention_bias"}, usual_bias);
  plan.layer.attention.qk_norm = f.FlagOr({"use_qk_norm"}, false);
  LayOut(plan, model);
  SetPrediction(model, f.CountOr({"num_nextn_predict_layers"}, 0, kMostLayers));
}

void Glm4Moe(Fields& f, Model& model) { ReadGlm4Moe(f, model, false); }
void Glm4vMoe(Fields& f, Model& model) { ReadGlm4Moe(f, model, true); }

void Dots1(Fields& f, Model& model) {
  Blueprint plan = ReadGlmMoe(f);
  SetAttentionBias(plan, f.FlagOr({"attention_bias"}, false));
  plan.layer.attention.qk_norm = true;
  ReadOptionalWindows(f, plan);
  LayOut(plan, model);
}

// Every product has a bias, each head a learned sink, every other layer a window. `Source:` the
// gpt-oss model card, arXiv:2508.10925, section 2.
void GptOss(Fields& f, Model& model) {
  Blueprint plan = ReadMixtral(f);
  SetAttentionBias(plan, f.FlagOr({"attention_bias"}, true));
  plan.experts->router_bias = true;
  plan.experts->expert_bias = true;
  plan.layer.extra_parameters += plan.layer.attention.heads;
  ReadWindows(f, plan, 2);
  LayOut(plan, model);
}

void MiniMaxM2(Fields& f, Model& model) {
  Blueprint plan = ReadMixtral(f);
  if (f.FlagOr({"use_qk_norm"}, false)) {
    const std::string type = f.TextOr({"qk_norm_type"}, "per_layer");
    if (type == "per_layer") {
      AddWideNorms(plan);
    } else {
      plan.layer.attention.qk_norm = true;
    }
  }
  plan.experts->router_bias = f.FlagOr({"use_routing_bias"}, false);
  plan.experts->shared_width = f.CountOr({"shared_intermediate_size"}, 0);
  LayOut(plan, model);
  const int modules = f.CountOr({"num_mtp_modules"}, 0, 64);
  const int depth = f.CountOr({"mtp_transformer_layers"}, 1, 64);
  if (f.FlagOr({"use_mtp"}, false)) SetPrediction(model, modules * depth);
}

// Sliding layers may have their own heads (attention_other_setting), and each head a gate.
void ReadStepAttention(Fields& f, Blueprint& plan, Model& model) {
  plan.layer.attention.qk_norm = f.FlagOr({"use_qk_norm"}, false);
  const bool gated = f.FlagOr({"use_head_wise_attn_gate"}, false);
  const auto gates = [&](int heads) {
    return gated ? static_cast<std::int64_t>(heads) * plan.layer.hidden : 0;
  };
  plan.layer.extra_parameters += gates(plan.layer.attention.heads);
  const Node* other = f.Take({"attention_other_setting"});
  if (other == nullptr) return;
  Fields sliding(*other, model);
  plan.windowed = plan.layer.attention;
  plan.windowed->heads = sliding.Size({"num_attention_heads"}, kMostHeads);
  plan.windowed->kv_heads =
      sliding.Size({"num_attention_groups", "num_key_value_heads"}, kMostHeads);
  plan.windowed->head_dim = sliding.SizeOr({"head_dim"}, plan.layer.attention.head_dim, kMostHeads);
  plan.windowed_extra = gates(plan.windowed->heads) - gates(plan.layer.attention.heads);
  NoteUntaken(sliding, model);
}

// Layers with experts as a list "3,4,5,...", or a dense head.
void ReadStepSparse(Fields& f, Blueprint& plan) {
  const Node* listed = f.Take({"moe_layers_enum"});
  if (listed == nullptr) return ReadDenseHead(f, plan);
  const std::string& text = listed->AsString();
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find(',', at), text.size());
    Node entry = *listed;
    entry.quoted = false;
    entry.text = text.substr(at, end - at);
    plan.sparse[static_cast<std::size_t>(entry.AsInt(0, plan.layers() - 1))] = true;
    at = end + 1;
  }
}

void Step(Fields& f, Model& model) {
  Blueprint plan = ReadFrame(f);
  if (const auto groups = f.SizeIfStated({"num_attention_groups"}, kMostHeads)) {
    ReadHeadWidth(f, plan);
    SetKeyHeads(f, plan, *groups);
  } else {
    ReadHeads(f, plan);
  }
  ReadStepAttention(f, plan, model);
  plan.layer.feed_forward.width = f.Size({"intermediate_size"});
  plan.experts = ReadExperts(f, {"moe_intermediate_size"});
  plan.experts->shared_width = f.CountOr({"share_expert_dim"}, 0);
  f.Take({"n_shared_experts"});
  plan.experts->router_bias = f.FlagOr({"use_moe_router_bias"}, false);
  ReadStepSparse(f, plan);
  ReadWindows(f, plan, 0);
  ReadTied(f, false);
  LayOut(plan, model);
  SetPrediction(model, f.CountOr({"num_nextn_predict_layers"}, 0, kMostLayers));
}

// Norms before and after attention and experts. `Source:` xai-org/grok-1, model.py.
void Grok1(Fields& f, Model& model) {
  Blueprint plan = ReadMixtral(f);
  plan.layer.norms = 4;
  LayOut(plan, model);
}

Attention ReadMimoWindowed(Fields& f, const Attention& full) {
  Attention attention = full;
  attention.heads = f.SizeOr({"swa_num_attention_heads"}, full.heads, kMostHeads);
  attention.kv_heads = f.SizeOr({"swa_num_key_value_heads"}, full.kv_heads, kMostHeads);
  attention.head_dim = f.SizeOr({"swa_head_dim"}, full.head_dim, kMostHeads);
  attention.value_dim = f.SizeOr({"swa_v_head_dim"}, full.value_dim, kMostHeads);
  return attention;
}

// hybrid_layer_pattern: 1 marks a sliding layer, which has heads and sinks of its own.
// `Source:` the code beside the weights of XiaomiMiMo/MiMo-V2-Flash.
void MimoV2(Fields& f, Model& model) {
  Blueprint plan = ReadFrame(f);
  ReadHeads(f, plan);
  Attention& full = plan.layer.attention;
  full.value_dim = f.SizeOr({"v_head_dim"}, full.head_dim, kMostHeads);
  SetAttentionBias(plan, f.FlagOr({"attention_bias"}, false));
  plan.windowed = ReadMimoWindowed(f, full);
  const std::int64_t full_sinks =
      f.FlagOr({"add_full_attention_sink_bias"}, false) ? full.heads : 0;
  const std::int64_t window_sinks =
      f.FlagOr({"add_swa_attention_sink_bias"}, false) ? plan.windowed->heads : 0;
  plan.layer.extra_parameters += full_sinks;
  plan.windowed_extra = window_sinks - full_sinks;
  const int window = f.Size({"sliding_window", "sliding_window_size"}, kLongest);
  const Node* pattern = f.Take({"hybrid_layer_pattern"});
  if (pattern == nullptr) f.Missing({"hybrid_layer_pattern"}, "a list of 0 and 1 is expected");
  if (static_cast<int>(pattern->AsList().size()) != plan.layers()) {
    ThrowBadInput(fmt::format("{} has {} entries; the model has {} layers", pattern->path,
                              pattern->items.size(), plan.layers()),
                  pattern->where);
  }
  for (std::size_t i = 0; i < plan.windows.size(); ++i) {
    if (pattern->items[i].AsInt(0, 1) == 1) plan.windows[i] = window;
  }
  ReadDeepSeekExperts(f, plan);
  if (plan.experts) plan.experts->router_bias = HasBalancingBias(f, true);
  ReadTied(f, false);
  LayOut(plan, model);
  SetPrediction(model, f.CountOr({"num_nextn_predict_layers"}, 0, kMostLayers));
}

// Three of four layers attend within chunks, which bounds what a query sees as a window does.
void ReadChunks(Fields& f, Blueprint& plan) {
  f.Take({"no_rope_layers"});
  ReadWindows(f, plan, f.SizeOr({"no_rope_layer_interval"}, 4, kMostLayers));
}

void ReadLlama4Sparse(Fields& f, Blueprint& plan) {
  const int step = f.SizeOr({"interleave_moe_layer_step"}, 1, kMostLayers);
  for (int i = 0; i < plan.layers(); ++i) {
    plan.sparse[static_cast<std::size_t>(i)] = (i + 1) % step == 0;
  }
  const Node* listed = f.Take({"moe_layers"});
  if (listed == nullptr) return;
  plan.sparse.assign(plan.sparse.size(), false);
  for (const Node& layer : listed->AsList()) {
    plan.sparse[static_cast<std::size_t>(layer.AsInt(0, plan.layers() - 1))] = true;
  }
}

// One shared expert as wide as a routed one; norms of query and key have no parameters.
// `Source:` Llama4TextMoe, Llama4TextL2Norm.
void Llama4(Fields& f, Model& model) {
  Blueprint plan = ReadFrame(f);
  ReadHeads(f, plan);
  SetAttentionBias(plan, f.FlagOr({"attention_bias"}, false));
  f.Take({"use_qk_norm"});
  plan.experts = ReadExperts(f, {"intermediate_size"});
  plan.experts->shared_width = plan.experts->width;
  plan.layer.feed_forward.width = f.Size({"intermediate_size_mlp"});
  ReadLlama4Sparse(f, plan);
  ReadChunks(f, plan);
  ReadTied(f, false);
  LayOut(plan, model);
}

// Sizes in nested maps; LayerNorm without bias.
void Dbrx(Fields& f, Model& model) {
  Blueprint plan = ReadFrame(f);
  const Node* attention = f.Take({"attn_config"});
  const Node* ffn = f.Take({"ffn_config"});
  if (attention == nullptr || ffn == nullptr) {
    f.Missing({"attn_config", "ffn_config"}, "a map is expected under both");
  }
  Fields heads(*attention, model);
  ReadHeadWidth(f, plan);
  SetKeyHeads(heads, plan, heads.Size({"kv_n_heads"}, kMostHeads));
  Fields experts(*ffn, model);
  plan.experts = ReadExperts(experts, {"ffn_hidden_size"});
  AllSparse(plan);
  NoteUntaken(heads, model);
  NoteUntaken(experts, model);
  ReadTied(f, false);
  LayOut(plan, model);
}

// Sizes of the configuration classes, transformers 4.57.
constexpr DefaultSize kQwen3Moe[] = {
    {"vocab_size", 151936},    {"hidden_size", 2048},           {"intermediate_size", 5632},
    {"num_hidden_layers", 24}, {"num_attention_heads", 16},     {"num_key_value_heads", 16},
    {"num_experts", 60},       {"moe_intermediate_size", 1408}, {"num_experts_per_tok", 4}};
constexpr DefaultSize kLlama4[] = {{"vocab_size", 202048},
                                   {"hidden_size", 5120},
                                   {"intermediate_size", 8192},
                                   {"num_hidden_layers", 48},
                                   {"num_attention_heads", 40},
                                   {"num_key_value_heads", 8},
                                   {"head_dim", 128},
                                   {"num_local_experts", 16},
                                   {"num_experts_per_tok", 1},
                                   {"intermediate_size_mlp", 16384},
                                   {"attention_chunk_size", 8192}};

constexpr Family kFamilies[] = {
    {"mixtral", "MixtralForCausalLM", Mixtral},
    {"phimoe", "PhiMoEForCausalLM", PhiMoe},
    {"olmoe", "OlmoeForCausalLM", OlmoE},
    {"granitemoe", "GraniteMoeForCausalLM", GraniteMoe},
    {"granitemoeshared", "GraniteMoeSharedForCausalLM", GraniteMoe},
    {"qwen2_moe", "Qwen2MoeForCausalLM", Qwen2Moe},
    {"qwen3_moe", "Qwen3MoeForCausalLM", Qwen3Moe},
    {"qwen3_vl_moe_text", "", Qwen3Moe, kQwen3Moe},
    {"deepseek", "DeepseekForCausalLM", DeepSeekMoe},
    {"deepseek_v2", "DeepseekV2ForCausalLM", DeepSeekV2},
    {"deepseek_v3", "DeepseekV3ForCausalLM", DeepSeekV3},
    {"kimi_k2", "", DeepSeekV3},
    {"glm4_moe", "Glm4MoeForCausalLM", Glm4Moe},
    {"glm4v_moe_text", "", Glm4vMoe},
    {"Glm4vMoe_text", "", Glm4vMoe},
    {"dots1", "Dots1ForCausalLM", Dots1},
    {"gpt_oss", "GptOssForCausalLM", GptOss},
    {"minimax_m2", "MiniMaxM2ForCausalLM", MiniMaxM2},
    {"step3p5", "Step3p5ForCausalLM", Step},
    {"step3p7", "Step3p7FlashForCausalLM", Step},
    {"grok-1", "Grok1ModelForCausalLM", Grok1},
    {"mimo_v2_flash", "MiMoV2FlashForCausalLM", MimoV2},
    {"llama4_text", "Llama4ForCausalLM", Llama4, kLlama4},
    {"dbrx", "DbrxForCausalLM", Dbrx},
};

}  // namespace

std::span<const Family> ExpertFamilies() { return kFamilies; }

}  // namespace restow::hugging_face
