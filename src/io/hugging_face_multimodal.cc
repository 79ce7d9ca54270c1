// Language models with towers in front of them: which parts a family has and where it states them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "io/hugging_face.h"

namespace restow::hugging_face {
namespace {

constexpr const char* kVision = "vision_tower";

// A nested map that must be there.
Fields Nested(Fields& f, FieldNames names) {
  const Node* map = f.Take(names);
  if (map == nullptr) f.Missing(names, "a map is expected");
  return {*map, f.model()};
}

// The tower's map, with the defaults of the kind it names, else of the usual one.
Fields NestedTower(Fields& f, std::string_view usual_kind) {
  Fields tower = Nested(f, {"vision_config"});
  std::span<const DefaultSize> defaults = TowerDefaults(TextOf(tower.node(), "model_type"));
  if (defaults.empty()) defaults = TowerDefaults(usual_kind);
  tower.Assume(defaults, "the tower's configuration class");
  return tower;
}

// The language model under one of `names`, or in the same map as everything else.
void ReadLanguage(Fields& f, FieldNames names, std::string_view usual, Model& model) {
  if (const Node* map = f.Take(names)) {
    Fields text(*map, model);
    ReadNestedLanguage(f, text, usual, model);
    return;
  }
  FindLanguageFamily(usual, "")->read(f, model);
}

void RequireLanguage(Fields& f, FieldNames names, std::string_view usual, Model& model) {
  if (f.Peek(names) == nullptr) f.Missing(names, "a map is expected");
  ReadLanguage(f, names, usual, model);
}

int Square(int side) { return side * side; }

void Qwen2Vl(Fields& f, Model& model) {
  ReadLanguage(f, {"text_config"}, "qwen2_vl_text", model);
  Fields tower = NestedTower(f, "qwen2_vl");
  ReadQwen2Tower(tower, "visual", model);
}

void Qwen25Vl(Fields& f, Model& model) {
  ReadLanguage(f, {"text_config"}, "qwen2_5_vl_text", model);
  Fields tower = NestedTower(f, "qwen2_5_vl");
  ReadQwen25Tower(tower, "visual", model);
}

void Qwen3Vl(Fields& f, Model& model) {
  RequireLanguage(f, {"text_config"}, "qwen3_vl_text", model);
  Fields tower = NestedTower(f, "qwen3_vl");
  ReadQwen3Tower(tower, "visual", model);
}

void Qwen3VlMoe(Fields& f, Model& model) {
  RequireLanguage(f, {"text_config"}, "qwen3_vl_moe_text", model);
  Fields tower = NestedTower(f, "qwen3_vl_moe");
  ReadQwen3Tower(tower, "visual", model);
}

void Glm4v(Fields& f, Model& model) {
  ReadLanguage(f, {"text_config"}, "glm4v_text", model);
  Fields tower = NestedTower(f, "glm4v");
  ReadGlmTower(tower, "visual", model);
}

void Glm4vMoe(Fields& f, Model& model) {
  RequireLanguage(f, {"text_config"}, "glm4v_moe_text", model);
  Fields tower = NestedTower(f, "glm4v");
  ReadGlmTower(tower, "visual", model);
}

// Patches are pooled to a fixed number of tokens, normed and projected without bias.
// `Source:` Gemma 3, arXiv:2503.19786, section 2.1, and Gemma3MultiModalProjector.
void Gemma3(Fields& f, Model& model) {
  RequireLanguage(f, {"text_config"}, "gemma3_text", model);
  Fields tower = NestedTower(f, "siglip_vision_model");
  const std::int64_t width = ReadSiglipTower(tower, kVision, model, {});
  model.projector_parameters = width * model.hidden() + width;
  const int tokens = f.SizeOr({"mm_tokens_per_image"}, 256, kLongest);
  model.towers.back().merge = std::max(model.towers.back().patches / tokens, 1);
}

void PaliGemma(Fields& f, Model& model) {
  RequireLanguage(f, {"text_config"}, "gemma", model);
  Fields tower = NestedTower(f, "siglip_vision_model");
  const int width = ReadSiglipTower(tower, kVision, model, {});
  model.projector_parameters = Linear(width, model.hidden(), true);
}

int ReadNamedTower(Fields& f, Model& model) {
  Fields tower = NestedTower(f, "clip_vision_model");
  const std::string kind = TextOf(tower.node(), "model_type");
  if (kind.empty() || kind == "clip_vision_model") return ReadClipTower(tower, kVision, model);
  if (kind == "siglip_vision_model") return ReadSiglipTower(tower, kVision, model, {});
  if (kind == "pixtral") return ReadPixtralTower(tower, kVision, model);
  ThrowUnsupported(fmt::format("{} is '{}'; clip_vision_model, siglip_vision_model and pixtral "
                               "can be priced",
                               FieldPath(tower.node(), "model_type"), kind),
                   tower.node().where);
}

// The features of several layers may be joined in front of the projector.
int FeatureLayers(Fields& f) {
  const Node* layers = f.Take({"vision_feature_layer"});
  if (layers == nullptr || !layers->is_list()) return 1;
  if (layers->items.empty() || layers->items.size() > 64) {
    ThrowBadInput(
        fmt::format("{} has {} entries; 1 to 64 are expected", layers->path, layers->items.size()),
        layers->where);
  }
  return static_cast<int>(layers->items.size());
}

void ReadLlavaParts(Fields& f, Model& model) {
  RequireLanguage(f, {"text_config"}, "llama", model);
  const int width = ReadNamedTower(f, model) * FeatureLayers(f);
  const bool bias = f.FlagOr({"multimodal_projector_bias"}, true);
  model.projector_parameters =
      Linear(width, model.hidden(), bias) + Linear(model.hidden(), model.hidden(), bias);
}

// The original files name their tower instead of describing it.
void AddTowerByName(Fields& f, Model& model) {
  const Node& tower = *f.Take({"mm_vision_tower", "vision_tower"});
  if (tower.AsString().find("clip-vit-large-patch14-336") == std::string::npos) {
    ThrowUnsupported(fmt::format("{} is {}; of the towers that are known by name only "
                                 "openai/clip-vit-large-patch14-336 can be priced",
                                 tower.path, tower.Written()),
                     tower.where);
  }
  AddClipLarge(kVision, model, 0, true);
}

// "linear", or "mlp2x_gelu": that many products. `Source:` build_vision_projector of LLaVA.
std::int64_t NamedProjector(Fields& f, int width, int hidden) {
  const Node* type = f.Take({"mm_projector_type"});
  const std::string text = type != nullptr ? type->AsString() : "linear";
  if (text == "linear") return Linear(width, hidden, true);
  if (text.size() == 10 && text.starts_with("mlp") && text.ends_with("x_gelu") && text[3] >= '1' &&
      text[3] <= '9') {
    return Linear(width, hidden, true) + (text[3] - '1') * Linear(hidden, hidden, true);
  }
  ThrowUnsupported(
      fmt::format("{} is {}; linear and mlpNx_gelu can be priced", type->path, type->Written()),
      type->where);
}

void ReadLlavaNamed(Fields& f, std::string_view language, Model& model) {
  FindLanguageFamily(language, "")->read(f, model);
  if (const Node* resampler = f.Take({"mm_resampler_type"})) {
    ThrowUnsupported(fmt::format("{} is {}; a resampler cannot be priced", resampler->path,
                                 resampler->Written()),
                     resampler->where);
  }
  AddTowerByName(f, model);
  const int width = f.SizeOr({"mm_hidden_size"}, model.towers.back().stack.kinds.front().hidden);
  model.projector_parameters = NamedProjector(f, width, model.hidden());
  const std::string merging = f.TextOr({"mm_patch_merge_type"}, "flat");
  if (merging.find("unpad") != std::string::npos) {
    model.projector_parameters += model.hidden();  // one learned end-of-row token
  }
}

bool NamesItsTower(const Fields& f) { return f.Peek({"mm_vision_tower"}) != nullptr; }

void Llava(Fields& f, Model& model) {
  NamesItsTower(f) ? ReadLlavaNamed(f, "llama", model) : ReadLlavaParts(f, model);
}

void LlavaMistral(Fields& f, Model& model) { ReadLlavaNamed(f, "mistral", model); }

// One learned end-of-row token besides.
void LlavaNext(Fields& f, Model& model) {
  ReadLlavaParts(f, model);
  model.projector_parameters += model.hidden();
}

// `Source:` Mistral3MultiModalProjector: a norm, a product that joins the patches, two products.
void Mistral3(Fields& f, Model& model) {
  RequireLanguage(f, {"text_config"}, "mistral", model);
  Fields tower = NestedTower(f, "pixtral");
  const std::int64_t width = ReadPixtralTower(tower, kVision, model);
  const int side = f.SizeOr({"spatial_merge_size"}, 2, 16);
  const int features = FeatureLayers(f);
  const bool bias = f.FlagOr({"multimodal_projector_bias"}, false);
  model.towers.back().merge = Square(side);
  model.projector_parameters = width + Linear(width * Square(side), width, false) +
                               Linear(width * features, model.hidden(), bias) +
                               Linear(model.hidden(), model.hidden(), bias);
}

// 0.5: two by two tokens become one.
int ReadDownsampling(Fields& f) {
  const Node* ratio = f.Take({"downsample_ratio"});
  if (ratio == nullptr) return 4;
  const double value = ratio->AsNumber();
  const int side = value > 0 ? static_cast<int>(std::lround(1 / std::max(value, 0.01))) : 0;
  if (side < 1 || std::abs(side * value - 1) > 1e-9) {
    ThrowBadInput(fmt::format("{} is {}; one part of a whole number (1, 0.5, 0.25) is expected",
                              ratio->path, ratio->Written()),
                  ratio->where);
  }
  return Square(side);
}

// `Source:` InternVLChatModel, the code beside the weights of OpenGVLab/InternVL2-4B.
void InternVl(Fields& f, Model& model) {
  RequireLanguage(f, {"llm_config", "text_config"}, "", model);
  Fields tower = NestedTower(f, "");
  const std::int64_t width = ReadInternTower(tower, "vision_model", model);
  const int merge = ReadDownsampling(f);
  model.towers.back().merge = merge;
  model.projector_parameters = LayerNorm(width * merge) +
                               Linear(width * merge, model.hidden(), true) +
                               Linear(model.hidden(), model.hidden(), true);
}

void ReadMolmoLanguage(Fields& f, Model& model, Blueprint& plan) {
  plan = ReadFrame(f);
  ReadHeads(f, plan);
  plan.layer.feed_forward.width = f.Size({"intermediate_size"}) / 2;
  plan.layer.attention.qkv_bias = f.FlagOr({"qkv_bias"}, false);
  if (f.FlagOr({"attention_layer_norm"}, false)) AddWideNorms(plan);
  model.vocab = f.SizeOr({"embedding_size"}, model.vocab);
  model.tied = f.FlagOr({"weight_tying", "tie_word_embeddings"}, false);
  model.other_parameters =
      static_cast<std::int64_t>(f.CountOr({"additional_vocab_size"}, 128)) * plan.layer.hidden;
  LayOut(plan, model);
}

// The tower is not in the configuration but in the code: CLIP ViT-L/14 at 336 pixels without its
// last layer; two layers' features are joined, pooled two by two by attention, and projected by a
// gated feed-forward. `Source:` Molmo, arXiv:2409.17146, section 2, and MolmoVisionBackbone.
void Molmo(Fields& f, Model& model) {
  Blueprint plan;
  ReadMolmoLanguage(f, model, plan);
  const std::int64_t width = AddClipLarge("vision_backbone", model, 1, false);
  model.towers.back().merge = 4;
  const std::int64_t inner = plan.layer.feed_forward.width;
  const std::int64_t pooling = 3 * Linear(2 * width, width, true) + Linear(width, width, true);
  const std::int64_t padding = 2 * 2 * width;
  model.projector_parameters =
      pooling + padding + 2 * Linear(width, inner, false) + Linear(inner, model.hidden(), false);
  model.assumed.push_back({"vision_config",
                           "the family's tower is in its code: CLIP ViT-L/14 at "
                           "336 pixels, 23 layers (arXiv:2409.17146)"});
}

// The version says which language model is inside.
std::string_view MiniCpmLanguage(Fields& f) {
  const Node* version = f.Take({"version"});
  const std::string text = version != nullptr ? version->AsString() : "";
  if (text == "2.5" || text == "4.0" || text == "4") return "llama";
  if (text == "2.6") return "qwen2";
  if (text == "4.5") return "qwen3";
  ThrowUnsupported(fmt::format("family 'minicpmv' version {} is not known; known: 2.5, 2.6, 4.0, "
                               "4.5",
                               version != nullptr ? version->Written() : "(none)"),
                   version != nullptr ? version->where : f.node().where);
}

// A fixed number of learned queries attends to the patches. `Source:` Resampler of MiniCPM-V 2.6,
// the code beside the weights of openbmb/MiniCPM-V-2_6.
std::int64_t Resampler(std::int64_t queries, std::int64_t width, std::int64_t hidden) {
  const std::int64_t attention = 4 * Linear(hidden, hidden, true);
  return queries * hidden + Linear(width, hidden, false) + attention + 3 * LayerNorm(hidden) +
         hidden * hidden;
}

void MiniCpmV(Fields& f, Model& model) {
  FindLanguageFamily(MiniCpmLanguage(f), "")->read(f, model);
  Fields tower = NestedTower(f, "siglip_vision_model");
  const bool drop = f.FlagOr({"drop_vision_last_layer"}, true);
  const int width =
      ReadSiglipTower(tower, "vpm", model, {.usual_head = false, .dropped_layers = drop ? 1 : 0});
  const int queries = f.Size({"query_num"}, kLongest);
  const int across = f.SizeOr({"image_size"}, 448, 1 << 14) / f.SizeOr({"patch_size"}, 14, 1 << 14);
  model.towers.back().patches = Square(across);
  model.towers.back().merge = std::max(Square(across) / queries, 1);
  model.projector_parameters = Resampler(queries, width, model.hidden());
}

// The tower of both released Llama 4 models. `Source:` vision_config of
// meta-llama/Llama-4-Scout-17B-16E-Instruct.
void AddLlama4Tower(Model& model) {
  const Node released = ParseDocument(
      "{hidden_size: 1408, num_attention_heads: 16, intermediate_size: 5632, "
      "num_hidden_layers: 34, image_size: 336, patch_size: 14, projector_input_dim: 4096, "
      "projector_output_dim: 4096, vision_output_dim: 4096}",
      Language::kYaml, "Llama 4's vision tower");
  Fields tower(released, model);
  ReadLlama4Tower(tower, "vision_model", model);
  model.assumed.push_back({"vision_config",
                           "not stated; the tower of the released Llama 4 models: "
                           "1408 wide, 34 layers, 336 pixels"});
}

void Llama4(Fields& f, Model& model) {
  RequireLanguage(f, {"text_config"}, "llama4_text", model);
  int width = 4096;
  if (f.Peek({"vision_config"}) != nullptr) {
    Fields tower = NestedTower(f, "");
    width = ReadLlama4Tower(tower, "vision_model", model);
  } else {
    AddLlama4Tower(model);
  }
  model.projector_parameters = Linear(width, model.hidden(), false);
}

int ReadMergeKernel(Fields& tower) {
  const Node* kernel = tower.Take({"merge_kernel_size"});
  if (kernel == nullptr) return 4;
  if (kernel->AsList().size() != 2) {
    ThrowBadInput(
        fmt::format("{} is {}; [rows, columns] is expected", kernel->path, kernel->Written()),
        kernel->where);
  }
  return kernel->items[0].AsInt(1, 8) * kernel->items[1].AsInt(1, 8);
}

// `Source:` Kimi-VL, arXiv:2504.07491, section 2.1: a norm and two products over joined tokens.
void Kimi(Fields& f, Model& model) {
  RequireLanguage(f, {"text_config"}, "kimi_k2", model);
  Fields tower = NestedTower(f, "");
  const int merge = ReadMergeKernel(tower);
  tower.Take({"mm_hidden_size"});
  tower.Take({"text_hidden_size"});
  const std::int64_t width = ReadMoonTower(tower, kVision, model);
  model.towers.back().merge = merge;
  model.projector_parameters = LayerNorm(width) + Linear(width * merge, width * merge, true) +
                               Linear(width * merge, model.hidden(), true);
}

// `Source:` Qwen2-Audio, arXiv:2407.10759, section 2, and Qwen2AudioEncoder.
void Qwen2Audio(Fields& f, Model& model) {
  f.Take({"vocab_size"});
  RequireLanguage(f, {"text_config"}, "qwen2", model);
  Fields tower = Nested(f, {"audio_config"});
  const std::int64_t positions = tower.SizeOr({"max_source_positions"}, 1500, kLongest);
  const int width = ReadAudioTower(tower, "audio_tower", model);
  model.towers.back().other_parameters += positions * width;
  model.projector_parameters = Linear(width, model.hidden(), true);
}

// Text in and out, images and sound in. `Source:` Qwen2.5-Omni, arXiv:2503.20215, section 2, and
// Qwen2_5OmniThinkerForConditionalGeneration.
void ReadThinker(Fields& f, Model& model) {
  RequireLanguage(f, {"text_config"}, "qwen2_5_omni_text", model);
  Fields vision = NestedTower(f, "qwen2_5_vl");
  ReadQwen25Tower(vision, "visual", model);
  Fields audio = Nested(f, {"audio_config"});
  const int out = audio.SizeOr({"output_dim"}, model.hidden());
  const int width = ReadAudioTower(audio, "audio_tower", model);
  // Learned begin and end of a sound.
  model.towers.back().other_parameters += Linear(width, out, true) + 2 * out;
  f.Take({"model_type"});
}

void Qwen25Omni(Fields& f, Model& model) {
  const Node* output = f.Peek({"enable_audio_output"});
  if (f.FlagOr({"enable_audio_output"}, true)) {
    ThrowUnsupported(
        "family 'qwen2_5_omni' with speech output cannot be priced (its talker and its vocoder are "
        "models of their own); with enable_audio_output: false its thinker can",
        output != nullptr ? output->where : f.node().where);
  }
  for (const std::string_view part : {"talker_config", "token2wav_config", "enable_talker"}) {
    if (f.Take({part}) == nullptr) continue;
    model.ignored.push_back({FieldPath(f.node(), part), "speech output is switched off"});
  }
  Fields thinker = Nested(f, {"thinker_config"});
  ReadThinker(thinker, model);
  NoteUntaken(thinker, model);
}

constexpr Family kFamilies[] = {
    {"qwen2_vl", "Qwen2VLForConditionalGeneration", Qwen2Vl},
    {"qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", Qwen25Vl},
    {"qwen3_vl", "Qwen3VLForConditionalGeneration", Qwen3Vl},
    {"qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", Qwen3VlMoe},
    {"glm4v", "Glm4vForConditionalGeneration", Glm4v},
    {"glm4v_moe", "Glm4vMoeForConditionalGeneration", Glm4vMoe},
    {"gemma3", "Gemma3ForConditionalGeneration", Gemma3},
    {"paligemma", "PaliGemmaForConditionalGeneration", PaliGemma},
    {"llava", "LlavaForConditionalGeneration", Llava},
    {"llava_llama", "LlavaLlamaForCausalLM", Llava},
    {"llava_mistral", "LlavaMistralForCausalLM", LlavaMistral},
    {"llava_next", "LlavaNextForConditionalGeneration", LlavaNext},
    {"llava_onevision", "LlavaOnevisionForConditionalGeneration", LlavaNext},
    {"mistral3", "Mistral3ForConditionalGeneration", Mistral3},
    {"internvl_chat", "InternVLChatModel", InternVl},
    {"molmo", "MolmoForCausalLM", Molmo},
    {"minicpmv", "MiniCPMV", MiniCpmV},
    {"llama4", "Llama4ForConditionalGeneration", Llama4},
    {"kimi_k25", "KimiK25ForConditionalGeneration", Kimi},
    {"kimi_vl", "KimiVLForConditionalGeneration", Kimi},
    {"qwen2_audio", "Qwen2AudioForConditionalGeneration", Qwen2Audio},
    {"qwen2_5_omni", "Qwen2_5OmniForConditionalGeneration", Qwen25Omni},
    {"qwen2_5_omni_thinker", "Qwen2_5OmniThinkerForConditionalGeneration", ReadThinker},
};

}  // namespace

std::span<const Family> MultimodalFamilies() { return kFamilies; }

}  // namespace restow::hugging_face
