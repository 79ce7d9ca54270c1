// Dense decoders of the Llama line: rotary positions, mostly RMSNorm and gated feed-forwards.
// One function per family; what is not said is as in ReadDecoder.
#include "io/hugging_face.h"

namespace restow::hugging_face {
namespace {

void Llama(Fields& f, Model& model) {
  Blueprint plan = ReadDecoder(f);
  SetAttentionBias(plan, f.FlagOr({"attention_bias"}, false));
  plan.layer.feed_forward.bias = f.FlagOr({"mlp_bias"}, false);
  ReadTied(f, false);
  LayOut(plan, model);
}

void Granite(Fields& f, Model& model) { Llama(f, model); }

// One window for all layers unless layer_types says otherwise.
void Mistral(Fields& f, Model& model) {
  Blueprint plan = ReadDecoder(f);
  ReadWindows(f, plan, 0);
  ReadTied(f, false);
  LayOut(plan, model);
}

// The query, key and value projections have a bias, and the width is that of both branches.
void Qwen1(Fields& f, Model& model) {
  Blueprint plan = ReadDecoder(f);
  if (plan.layer.feed_forward.width % 2 != 0) {
    ThrowBadInput("intermediate_size is odd; in this family it is twice the width of a branch",
                  f.Peek({"intermediate_size"})->where);
  }
  plan.layer.feed_forward.width /= 2;
  const bool bias = !f.FlagOr({"no_bias"}, true);
  plan.layer.attention.qkv_bias = true;
  plan.layer.attention.output_bias = bias;
  plan.layer.feed_forward.bias = bias;
  ReadTied(f, false);
  LayOut(plan, model);
}

void Qwen2(Fields& f, Model& model) {
  Blueprint plan = ReadDecoder(f);
  plan.layer.attention.qkv_bias = f.FlagOr({"attention_bias", "qkv_bias"}, true);
  ReadOptionalWindows(f, plan);
  ReadTied(f, false);
  LayOut(plan, model);
}

// Qwen2's layers with multi-token prediction. `Source:` MiMo, arXiv:2505.07608, section 2.2.
void Mimo(Fields& f, Model& model) {
  Qwen2(f, model);
  SetPrediction(model, f.CountOr({"num_nextn_predict_layers"}, 0, kMostLayers));
}

void Qwen3(Fields& f, Model& model) {
  Blueprint plan = ReadDecoder(f);
  SetAttentionBias(plan, f.FlagOr({"attention_bias"}, false));
  plan.layer.attention.qk_norm = true;
  ReadOptionalWindows(f, plan);
  ReadTied(f, false);
  LayOut(plan, model);
}

Blueprint ReadGemma(Fields& f) {
  Blueprint plan = ReadDecoder(f);
  SetAttentionBias(plan, f.FlagOr({"attention_bias"}, false));
  ReadTied(f, true);
  return plan;
}

void Gemma(Fields& f, Model& model) { LayOut(ReadGemma(f), model); }

// Norms before and after attention and feed-forward; every other layer has a window.
void Gemma2(Fields& f, Model& model) {
  Blueprint plan = ReadGemma(f);
  plan.layer.norms = 4;
  ReadWindows(f, plan, 2);
  LayOut(plan, model);
}

void Gemma3(Fields& f, Model& model) {
  Blueprint plan = ReadGemma(f);
  plan.layer.norms = 4;
  plan.layer.attention.qk_norm = true;
  ReadWindows(f, plan, f.SizeOr({"sliding_window_pattern", "_sliding_window_pattern"}, 6));
  LayOut(plan, model);
}

// Attention and feed-forward side by side behind one LayerNorm; biases everywhere.
void Phi(Fields& f, Model& model) {
  Blueprint plan = ReadDecoder(f);
  SetAttentionBias(plan, true);
  plan.layer.norms = 1;
  plan.layer.norm_bias = true;
  plan.layer.feed_forward.gated = false;
  plan.layer.feed_forward.bias = true;
  if (f.FlagOr({"qk_layernorm"}, false)) {
    plan.layer.extra_parameters += 2 * LayerNorm(plan.layer.attention.head_dim);
  }
  ReadTied(f, false);
  model.head_bias = true;
  LayOut(plan, model);
}

// Norms of query and key over their whole width. `Source:` OLMo 2, arXiv:2501.00656, section 2.
Blueprint ReadOlmo(Fields& f) {
  Blueprint plan = ReadDecoder(f);
  SetAttentionBias(plan, f.FlagOr({"attention_bias"}, false));
  AddWideNorms(plan);
  ReadTied(f, false);
  return plan;
}

void Olmo2(Fields& f, Model& model) { LayOut(ReadOlmo(f), model); }

void Olmo3(Fields& f, Model& model) {
  Blueprint plan = ReadOlmo(f);
  ReadWindows(f, plan, 4);
  LayOut(plan, model);
}

// Attention and feed-forward side by side behind one LayerNorm without bias.
Blueprint ReadCohere(Fields& f) {
  Blueprint plan = ReadDecoder(f);
  SetAttentionBias(plan, f.FlagOr({"attention_bias"}, false));
  plan.layer.norms = 1;
  ReadTied(f, true);
  return plan;
}

void Cohere(Fields& f, Model& model) {
  Blueprint plan = ReadCohere(f);
  if (f.FlagOr({"use_qk_norm"}, false)) AddWideNorms(plan);
  LayOut(plan, model);
}

void Cohere2(Fields& f, Model& model) {
  Blueprint plan = ReadCohere(f);
  ReadWindows(f, plan, f.SizeOr({"sliding_window_pattern", "_sliding_window_pattern"}, 4));
  LayOut(plan, model);
}

void InternLm(Fields& f, Model& model) {
  Blueprint plan = ReadDecoder(f);
  SetAttentionBias(plan, f.FlagOr({"bias"}, false));
  ReadTied(f, false);
  LayOut(plan, model);
}

// Multi-query attention states its groups under its own names. A layer norm after the last layer
// is the final norm that every model here has.
void ChatGlm(Fields& f, Model& model) {
  Blueprint plan = ReadFrame(f);
  ReadHeadWidth(f, plan);
  if (f.FlagOr({"multi_query_attention"}, false)) {
    SetKeyHeads(f, plan, f.Size({"multi_query_group_num"}, kMostHeads));
  } else {
    f.Take({"multi_query_group_num"});
  }
  plan.layer.feed_forward.width = f.Size({"ffn_hidden_size"});
  const bool bias = f.FlagOr({"add_bias_linear"}, false);
  plan.layer.attention.qkv_bias = bias || f.FlagOr({"add_qkv_bias"}, false);
  plan.layer.attention.output_bias = bias;
  plan.layer.feed_forward.bias = bias;
  plan.layer.norm_bias = !f.FlagOr({"rmsnorm"}, true);
  if (!f.FlagOr({"post_layer_norm"}, true)) {
    ThrowUnsupported("post_layer_norm is false; a model without a final norm cannot be priced",
                     f.Peek({"post_layer_norm"})->where);
  }
  ReadTied(f, false);
  LayOut(plan, model);
}

Blueprint ReadGlm(Fields& f, bool usual_bias) {
  Blueprint plan = ReadDecoder(f);
  plan.layer.attention.qkv_bias = f.FlagOr({"attention_bias"}, usual_bias);
  ReadTied(f, false);
  return plan;
}

void Glm(Fields& f, Model& model) { LayOut(ReadGlm(f, false), model); }

// Norms before and after attention and feed-forward.
void Glm4(Fields& f, Model& model) {
  Blueprint plan = ReadGlm(f, false);
  plan.layer.norms = 4;
  LayOut(plan, model);
}

// GLM-4.1V's language model always has the biases of GLM-4's 9B models.
void Glm4Vision(Fields& f, Model& model) {
  Blueprint plan = ReadGlm(f, true);
  plan.layer.norms = 4;
  LayOut(plan, model);
}

void StarCoder2(Fields& f, Model& model) {
  Blueprint plan = ReadDecoder(f);
  const bool bias = f.FlagOr({"use_bias"}, true);
  SetAttentionBias(plan, bias);
  plan.layer.norm_bias = true;
  plan.layer.feed_forward.bias = bias;
  plan.layer.feed_forward.gated = false;
  ReadWindows(f, plan, 0);
  ReadTied(f, true);
  LayOut(plan, model);
}

void StableLm(Fields& f, Model& model) {
  Blueprint plan = ReadDecoder(f);
  plan.layer.attention.qkv_bias = f.FlagOr({"use_qkv_bias"}, false);
  plan.layer.norm_bias = true;
  if (f.FlagOr({"use_parallel_residual"}, false)) plan.layer.norms = 1;
  if (f.FlagOr({"qk_layernorm"}, false)) AddWideNorms(plan);
  ReadTied(f, false);
  LayOut(plan, model);
}

// Squared ReLU, so one product in and one out; LayerNorm.
void Nemotron(Fields& f, Model& model) {
  Blueprint plan = ReadDecoder(f);
  SetAttentionBias(plan, f.FlagOr({"attention_bias"}, false));
  plan.layer.norm_bias = true;
  plan.layer.feed_forward.gated = false;
  plan.layer.feed_forward.bias = f.FlagOr({"mlp_bias"}, false);
  ReadTied(f, false);
  LayOut(plan, model);
}

void SmolLm3(Fields& f, Model& model) {
  Blueprint plan = ReadDecoder(f);
  SetAttentionBias(plan, f.FlagOr({"attention_bias"}, false));
  plan.layer.feed_forward.bias = f.FlagOr({"mlp_bias"}, false);
  ReadOptionalWindows(f, plan);
  ReadTied(f, true);
  LayOut(plan, model);
}

void SeedOss(Fields& f, Model& model) {
  Blueprint plan = ReadDecoder(f);
  plan.layer.attention.qkv_bias = f.FlagOr({"attention_bias"}, true);
  plan.layer.attention.output_bias = f.FlagOr({"attention_out_bias"}, false);
  plan.layer.feed_forward.bias = f.FlagOr({"mlp_bias"}, false);
  ReadTied(f, false);
  LayOut(plan, model);
}

void MiniCpm(Fields& f, Model& model) {
  Blueprint plan = ReadDecoder(f);
  SetAttentionBias(plan, f.FlagOr({"attention_bias"}, false));
  ReadTied(f, true);
  LayOut(plan, model);
}

// Latent attention in a dense model; a value's width is the hidden size shared among the heads.
void MiniCpm3(Fields& f, Model& model) {
  Blueprint plan = ReadFrame(f);
  ReadLatent(f, plan, plan.layer.hidden / plan.layer.attention.heads);
  plan.layer.feed_forward.width = f.Size({"intermediate_size"});
  ReadTied(f, true);
  LayOut(plan, model);
}

// Sizes of the configuration classes, transformers 4.57.
constexpr DefaultSize kLlama[] = {{"vocab_size", 32000},
                                  {"hidden_size", 4096},
                                  {"intermediate_size", 11008},
                                  {"num_hidden_layers", 32},
                                  {"num_attention_heads", 32}};
constexpr DefaultSize kMistral[] = {{"vocab_size", 32000},        {"hidden_size", 4096},
                                    {"intermediate_size", 14336}, {"num_hidden_layers", 32},
                                    {"num_attention_heads", 32},  {"num_key_value_heads", 8},
                                    {"sliding_window", 4096}};
constexpr DefaultSize kQwen2[] = {{"vocab_size", 151936},       {"hidden_size", 4096},
                                  {"intermediate_size", 22016}, {"num_hidden_layers", 32},
                                  {"num_attention_heads", 32},  {"num_key_value_heads", 32}};
constexpr DefaultSize kQwen2Vl[] = {{"vocab_size", 152064},       {"hidden_size", 8192},
                                    {"intermediate_size", 29568}, {"num_hidden_layers", 80},
                                    {"num_attention_heads", 64},  {"num_key_value_heads", 8}};
constexpr DefaultSize kQwen3[] = {
    {"vocab_size", 151936},    {"hidden_size", 4096},       {"intermediate_size", 22016},
    {"num_hidden_layers", 32}, {"num_attention_heads", 32}, {"num_key_value_heads", 32},
    {"head_dim", 128}};
constexpr DefaultSize kGemma[] = {
    {"vocab_size", 256000},    {"hidden_size", 3072},       {"intermediate_size", 24576},
    {"num_hidden_layers", 28}, {"num_attention_heads", 16}, {"num_key_value_heads", 16},
    {"head_dim", 256}};
constexpr DefaultSize kGemma2[] = {{"vocab_size", 256000},      {"hidden_size", 2304},
                                   {"intermediate_size", 9216}, {"num_hidden_layers", 26},
                                   {"num_attention_heads", 8},  {"num_key_value_heads", 4},
                                   {"head_dim", 256},           {"sliding_window", 4096}};
constexpr DefaultSize kGemma3[] = {{"vocab_size", 262208},      {"hidden_size", 2304},
                                   {"intermediate_size", 9216}, {"num_hidden_layers", 26},
                                   {"num_attention_heads", 8},  {"num_key_value_heads", 4},
                                   {"head_dim", 256},           {"sliding_window", 4096}};
constexpr DefaultSize kPhi3[] = {{"vocab_size", 32064},
                                 {"hidden_size", 3072},
                                 {"intermediate_size", 8192},
                                 {"num_hidden_layers", 32},
                                 {"num_attention_heads", 32}};
constexpr DefaultSize kGlm4Vision[] = {{"vocab_size", 151552},       {"hidden_size", 4096},
                                       {"intermediate_size", 13696}, {"num_hidden_layers", 40},
                                       {"num_attention_heads", 32},  {"num_key_value_heads", 2}};

constexpr Family kFamilies[] = {
    {"llama", "LlamaForCausalLM", Llama, kLlama},
    {"yi", "YiForCausalLM", Llama},
    {"baichuan", "BaichuanForCausalLM", Llama},
    {"granite", "GraniteForCausalLM", Granite},
    {"mistral", "MistralForCausalLM", Mistral, kMistral},
    {"ministral", "MinistralForCausalLM", Mistral, kMistral},
    {"ministral3", "Ministral3ForCausalLM", Mistral},
    {"qwen", "QWenLMHeadModel", Qwen1},
    {"qwen2", "Qwen2ForCausalLM", Qwen2, kQwen2},
    {"qwen2_vl_text", "", Qwen2, kQwen2Vl},
    {"qwen2_5_vl_text", "", Qwen2, kQwen2Vl},
    {"qwen2_5_omni_text", "", Qwen2},
    {"mimo", "MiMoForCausalLM", Mimo},
    {"qwen3", "Qwen3ForCausalLM", Qwen3, kQwen3},
    {"qwen3_vl_text", "", Qwen3, kQwen3},
    {"gemma", "GemmaForCausalLM", Gemma, kGemma},
    {"gemma2", "Gemma2ForCausalLM", Gemma2, kGemma2},
    {"gemma3_text", "Gemma3ForCausalLM", Gemma3, kGemma3},
    {"phi", "PhiForCausalLM", Phi},
    {"phi3", "Phi3ForCausalLM", Mistral, kPhi3},
    {"olmo2", "Olmo2ForCausalLM", Olmo2},
    {"olmo3", "Olmo3ForCausalLM", Olmo3},
    {"cohere", "CohereForCausalLM", Cohere},
    {"cohere2", "Cohere2ForCausalLM", Cohere2},
    {"internlm", "InternLMForCausalLM", InternLm},
    {"internlm2", "InternLM2ForCausalLM", InternLm},
    {"chatglm", "ChatGLMForConditionalGeneration", ChatGlm},
    {"glm", "GlmForCausalLM", Glm},
    {"glm4", "Glm4ForCausalLM", Glm4},
    {"glm4v_text", "", Glm4Vision, kGlm4Vision},
    {"starcoder2", "Starcoder2ForCausalLM", StarCoder2},
    {"stablelm", "StableLmForCausalLM", StableLm},
    {"nemotron", "NemotronForCausalLM", Nemotron},
    {"smollm3", "SmolLM3ForCausalLM", SmolLm3},
    {"seed_oss", "SeedOssForCausalLM", SeedOss},
    {"minicpm", "MiniCPMForCausalLM", MiniCpm},
    {"minicpm3", "MiniCPM3ForCausalLM", MiniCpm3},
};

}  // namespace

std::span<const Family> DenseFamilies() { return kFamilies; }

}  // namespace restow::hugging_face
