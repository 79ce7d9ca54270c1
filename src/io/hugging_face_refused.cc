// Families and features that cannot be priced, each with the reason.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "io/hugging_face.h"

namespace restow::hugging_face {
namespace {

constexpr std::string_view kStateSpace = "state-space layers cannot be priced";
constexpr std::string_view kLinear = "linear-attention layers cannot be priced";
constexpr std::string_view kSparse =
    "sparse attention, which selects keys by an indexer, cannot be priced";
constexpr std::string_view kEncoderDecoder = "encoder-decoder models cannot be priced";
constexpr std::string_view kEncoder = "an encoder is no language model that generates";
constexpr std::string_view kDrafter =
    "a speculative drafter is a part of another model, which it cannot be priced without";
constexpr std::string_view kCross = "cross-attention layers cannot be priced";
constexpr std::string_view kPerLayer =
    "embeddings per layer, keys shared between layers and several feed-forwards in one layer "
    "cannot be priced";
constexpr std::string_view kBlocks =
    "layers whose attention or width differs one by one "
    "(block_configs) cannot be priced";
constexpr std::string_view kLayerType =
    "only layers of full_attention, sliding_attention and chunked_attention can be priced";
constexpr std::string_view kSpeech = "its speech parts cannot be priced";
constexpr std::string_view kNoHead = "a model without a language-model head cannot be priced";

struct Refusal {
  std::string_view reason;
  std::span<const std::string_view> names;  // model_type, or the start of an architecture
};

constexpr std::string_view kStateSpaceNames[] = {
    "mamba",           "mamba2", "falcon_mamba", "falcon_h1",  "jamba",
    "bamba",           "zamba",  "zamba2",       "nemotron_h", "granitemoehybrid",
    "recurrent_gemma", "rwkv",   "rwkv5",        "rwkv6",      "rwkv7",
    "xlstm",           "plamo2", "hymba",        "lfm2",       "lfm2_moe",
    "lfm2_vl",         "Mamba",  "NemotronH",    "Jamba"};
constexpr std::string_view kLinearNames[] = {
    "qwen3_next",       "qwen3_5",     "qwen3_5_text", "qwen3_5_moe",     "qwen3_5_moe_text",
    "kimi_linear",      "minimax",     "minimax_m1",   "minimax_text_01", "bailing_moe_linear",
    "bailing_moe_v2_5", "olmo_hybrid", "Qwen3Next",    "Qwen3_5",         "KimiLinear",
    "MiniMaxText01",    "MiniMaxM1"};
constexpr std::string_view kSparseNames[] = {"deepseek_v32", "deepseek_v4",   "glm_moe_dsa",
                                             "minimax_m3",   "minimax_m3_vl", "DeepseekV32",
                                             "DeepseekV4",   "GlmMoeDsa",     "MiniMaxM3"};
constexpr std::string_view kEncoderDecoderNames[] = {"t5",
                                                     "mt5",
                                                     "umt5",
                                                     "byt5",
                                                     "longt5",
                                                     "t5gemma",
                                                     "switch_transformers",
                                                     "bart",
                                                     "mbart",
                                                     "pegasus",
                                                     "marian",
                                                     "m2m_100",
                                                     "blenderbot",
                                                     "led",
                                                     "whisper",
                                                     "speech_to_text",
                                                     "moonshine",
                                                     "seamless_m4t",
                                                     "encoder-decoder",
                                                     "vision-encoder-decoder",
                                                     "florence2",
                                                     "T5",
                                                     "MT5",
                                                     "Bart",
                                                     "Whisper"};
constexpr std::string_view kEncoderNames[] = {"bert",        "roberta",
                                              "xlm-roberta", "deberta",
                                              "deberta-v2",  "distilbert",
                                              "electra",     "albert",
                                              "modernbert",  "vit",
                                              "clip",        "clip_vision_model",
                                              "siglip",      "siglip_vision_model",
                                              "dinov2",      "Bert",
                                              "Roberta"};
constexpr std::string_view kCrossNames[] = {"mllama", "mllama_text_model", "idefics", "flamingo",
                                            "Mllama"};
constexpr std::string_view kPerLayerNames[] = {"gemma3n",     "gemma3n_text", "gemma4",
                                               "gemma4_text", "Gemma3n",      "Gemma4"};
constexpr std::string_view kBlockNames[] = {"deci", "nemotron-nas", "DeciLM"};
constexpr std::string_view kSpeechNames[] = {"minicpmo", "qwen3_omni_moe", "MiniCPMO",
                                             "Qwen3OmniMoe"};
constexpr std::string_view kDrafterNames[] = {"eagle", "medusa", "speculators", "mlp_speculator"};

constexpr Refusal kFamilies[] = {
    {kStateSpace, kStateSpaceNames}, {kLinear, kLinearNames},
    {kSparse, kSparseNames},         {kEncoderDecoder, kEncoderDecoderNames},
    {kEncoder, kEncoderNames},       {kCross, kCrossNames},
    {kPerLayer, kPerLayerNames},     {kBlocks, kBlockNames},
    {kSpeech, kSpeechNames},         {kDrafter, kDrafterNames},
};

constexpr std::string_view kDrafterParts[] = {"Draft", "Eagle", "Medusa", "Speculator"};
constexpr std::string_view kHeadlessParts[] = {"ForSequenceClassification",
                                               "ForTokenClassification",
                                               "ForQuestionAnswering",
                                               "ForMaskedLM",
                                               "ForRewardModel",
                                               "RewardModel"};

// Fields that only models with such a feature have.
constexpr std::string_view kStateSpaceKeys[] = {"ssm_state_size",    "mamba_num_heads",
                                                "mamba_d_state",     "hybrid_override_pattern",
                                                "layers_block_type", "ssm_cfg"};
constexpr std::string_view kLinearKeys[] = {"linear_num_key_heads", "linear_attn_config",
                                            "linear_key_head_dim", "full_attention_interval"};
constexpr std::string_view kSparseKeys[] = {"index_topk", "index_n_heads",
                                            "sparse_attention_config", "sparse_config"};
constexpr std::string_view kDrafterKeys[] = {"dflash_config",          "draft_vocab_size",
                                             "eagle_config",           "num_target_layers",
                                             "speculators_model_type", "medusa_num_heads"};
constexpr std::string_view kBlockKeys[] = {"block_configs"};
constexpr std::string_view kCrossKeys[] = {"cross_attention_layers"};

constexpr Refusal kFeatures[] = {
    {kDrafter, kDrafterKeys}, {kStateSpace, kStateSpaceKeys}, {kLinear, kLinearKeys},
    {kSparse, kSparseKeys},   {kBlocks, kBlockKeys},          {kCross, kCrossKeys},
};

// `at` is the key that tells, null: the map as a whole.
[[noreturn]] void Refuse(const Node& map, std::string_view reason, const Node* at) {
  const std::string type = TextOf(map, "model_type");
  const std::string name = type.empty() ? FirstArchitecture(map) : type;
  const std::string family = name.empty() ? "this model" : fmt::format("family '{}'", name);
  ThrowUnsupported(fmt::format("{}: {}", family, reason), at != nullptr ? at->where : map.where);
}

bool Contains(std::string_view text, std::span<const std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

void RefuseArchitecture(const Node& map) {
  const std::string architecture = FirstArchitecture(map);
  const Node* at = map.Find("architectures");
  if (Contains(architecture, kDrafterParts)) Refuse(map, kDrafter, at);
  if (Contains(architecture, kHeadlessParts)) Refuse(map, kNoHead, at);
}

void RefuseFamily(const Node& map) {
  const std::string type = TextOf(map, "model_type");
  const std::string architecture = FirstArchitecture(map);
  for (const Refusal& refusal : kFamilies) {
    for (const std::string_view name : refusal.names) {
      const bool is_architecture = name.front() >= 'A' && name.front() <= 'Z';
      const bool hit =
          is_architecture ? type.empty() && architecture.starts_with(name) : type == name;
      if (hit) Refuse(map, refusal.reason, map.Find(type.empty() ? "architectures" : "model_type"));
    }
  }
}

// The field where it is stated and neither false nor 0.
const Node* On(const Node& map, std::string_view key) {
  const Node* value = map.Find(key);
  if (value == nullptr || value->is_null()) return nullptr;
  if (value->is_bool()) return value->AsBool() ? value : nullptr;
  return value->is_integer() && value->AsInteger() == 0 ? nullptr : value;
}

void RefuseField(const Node& map, std::string_view key, std::string_view reason) {
  if (const Node* at = On(map, key)) {
    Refuse(map, fmt::format("{} ({} is {})", reason, at->path, at->Written()), at);
  }
}

// Layer kinds other than attention over all tokens or over a window.
void RefuseLayerTypes(const Node& map) {
  const Node* types = map.Find("layer_types");
  if (types == nullptr || !types->is_list()) return;
  for (const Node& item : types->items) {
    const std::string& type = item.text;
    if (type == "full_attention" || type == "sliding_attention" || type == "chunked_attention") {
      continue;
    }
    const std::string_view reason = type == "linear_attention" ? kLinear : kLayerType;
    Refuse(map, fmt::format("{} ({} is {})", reason, item.path, item.Written()), &item);
  }
}

void RefuseFeatures(const Node& map) {
  RefuseLayerTypes(map);
  for (const Refusal& refusal : kFeatures) {
    for (const std::string_view key : refusal.names) RefuseField(map, key, refusal.reason);
  }
  RefuseField(map, "is_encoder_decoder", kEncoderDecoder);
  RefuseField(map, "add_cross_attention", kCross);
  RefuseField(map, "num_kv_shared_layers", kPerLayer);
  RefuseField(map, "hidden_size_per_layer_input", kPerLayer);
}

}  // namespace

std::string TextOf(const Node& map, std::string_view key) {
  const Node* value = map.is_map() ? map.Find(key) : nullptr;
  return value != nullptr && value->is_scalar() ? value->text : "";
}

std::string FirstArchitecture(const Node& map) {
  const Node* list = map.is_map() ? map.Find("architectures") : nullptr;
  if (list == nullptr || !list->is_list() || list->items.empty()) return "";
  return list->items.front().is_scalar() ? list->items.front().text : "";
}

void RefuseUnpriced(const Node& map) {
  RefuseArchitecture(map);
  RefuseFamily(map);
  RefuseFeatures(map);
}

}  // namespace restow::hugging_face
