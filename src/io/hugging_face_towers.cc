// Vision and audio encoders, by their kind.
#include <fmt/format.h>

#include <algorithm>

#include "io/hugging_face.h"

namespace restow::hugging_face {
namespace {

// Bounds that keep the products of mergers, quadratic in joined tokens, inside 63 bits.
constexpr int kWidestTower = 1 << 18;
constexpr std::size_t kMostIndexes = 256;

// Layers of one kind that see the whole input.
Tower UniformTower(const std::string& name, int layers, const LayerKind& kind) {
  Tower tower;
  tower.name = name;
  tower.stack.kinds = {kind};
  tower.stack.order.assign(static_cast<std::size_t>(layers), 0);
  return tower;
}

// An encoder layer with LayerNorm, an ungated feed-forward and biases throughout.
LayerKind EncoderLayer(int hidden, int heads, int width) {
  LayerKind kind;
  kind.name = "encoder";
  kind.hidden = hidden;
  kind.attention.heads = heads;
  kind.attention.kv_heads = heads;
  kind.attention.head_dim = hidden / heads;
  kind.attention.causal = false;
  kind.attention.qkv_bias = true;
  kind.attention.output_bias = true;
  kind.feed_forward.width = width;
  kind.feed_forward.gated = false;
  kind.feed_forward.bias = true;
  kind.norm_bias = true;
  return kind;
}

// The same with the heads checked against the map they come from.
LayerKind CheckedLayer(const Fields& f, int hidden, int heads, int width) {
  if (hidden % heads != 0) {
    ThrowBadInput(fmt::format("{} has {} heads, which do not divide its hidden size {}",
                              f.node().path, heads, hidden),
                  f.node().where);
  }
  return EncoderLayer(hidden, heads, width);
}

LayerKind ReadEncoderLayer(Fields& f) {
  const int hidden = f.Size({"hidden_size"}, kWidestTower);
  const int heads = f.Size({"num_attention_heads"}, kMostHeads);
  return CheckedLayer(f, hidden, heads, f.Size({"intermediate_size"}));
}

// Square patches of a square image.
struct Patches {
  int side = 0;             // of one patch, pixels
  int count = 0;            // in one image
  std::int64_t inputs = 0;  // values of one patch, all channels, one frame
};

Patches ReadPatches(Fields& f, int image) {
  Patches patches;
  patches.side = f.Size({"patch_size"}, 1 << 14);
  const int channels = f.SizeOr({"num_channels", "in_channels", "in_chans"}, 3, 1 << 10);
  const int across = image / patches.side;
  patches.count = across * across;
  patches.inputs = static_cast<std::int64_t>(channels) * patches.side * patches.side;
  return patches;
}

int ReadImage(Fields& f) { return f.SizeOr({"image_size"}, kUsualImageSide, 1 << 14); }

void CloseTower(Fields& f, Tower tower, const Patches& patches, Model& model) {
  tower.patches = patches.count;
  f.Take({"model_type"});
  model.towers.push_back(std::move(tower));
  NoteUntaken(f, model);
}

// Tokens joined by the merger of the Qwen line, in one direction.
int ReadMergeSide(Fields& f) { return f.SizeOr({"spatial_merge_size"}, 2, 16); }

// A norm and two products over `merge` joined tokens, with biases.
std::int64_t QwenMerger(std::int64_t joined, std::int64_t out, std::int64_t norm) {
  return norm + Linear(joined, joined, true) + Linear(joined, out, true);
}

// Windowed layers first, then the full ones at `full`; both of `kind`.
void SplitWindows(Tower& tower, const std::vector<int>& full, int window) {
  LayerKind windowed = tower.stack.kinds.front();
  windowed.name += "-window";
  windowed.attention.window = window;
  tower.stack.kinds.push_back(windowed);
  for (std::size_t i = 0; i < tower.stack.order.size(); ++i) {
    const bool is_full = std::find(full.begin(), full.end(), static_cast<int>(i)) != full.end();
    tower.stack.order[i] = is_full ? 0 : 1;
  }
}

std::vector<int> ReadIndexes(Fields& f, FieldNames names, std::vector<int> fallback) {
  const Node* list = f.Take(names);
  if (list == nullptr) return fallback;
  if (list->AsList().size() > kMostIndexes) {
    ThrowBadInput(fmt::format("{} has {} entries; at most {} are expected", list->path,
                              list->items.size(), kMostIndexes),
                  list->where);
  }
  std::vector<int> indexes;
  for (const Node& item : list->AsList()) indexes.push_back(item.AsInt(0, kMostLayers));
  return indexes;
}

// One more attention and feed-forward behind a norm, with a learned query.
std::int64_t PoolingHead(const LayerKind& kind) {
  const std::int64_t hidden = kind.hidden;
  const std::int64_t width = kind.feed_forward.width;
  return hidden + 4 * Linear(hidden, hidden, true) + LayerNorm(hidden) +
         Linear(hidden, width, true) + Linear(width, hidden, true);
}

// Sizes of the configuration classes, transformers 4.57.
constexpr DefaultSize kClip[] = {{"hidden_size", 768},      {"intermediate_size", 3072},
                                 {"num_hidden_layers", 12}, {"num_attention_heads", 12},
                                 {"image_size", 224},       {"patch_size", 32}};
constexpr DefaultSize kSiglip[] = {{"hidden_size", 768},      {"intermediate_size", 3072},
                                   {"num_hidden_layers", 12}, {"num_attention_heads", 12},
                                   {"image_size", 224},       {"patch_size", 16}};
constexpr DefaultSize kPixtral[] = {{"hidden_size", 1024},     {"intermediate_size", 4096},
                                    {"num_hidden_layers", 24}, {"num_attention_heads", 16},
                                    {"image_size", 1024},      {"patch_size", 16}};
constexpr DefaultSize kQwen2Vl[] = {{"depth", 32},
                                    {"embed_dim", 1280},
                                    {"hidden_size", 3584},
                                    {"num_heads", 16},
                                    {"patch_size", 14}};
constexpr DefaultSize kQwen25Vl[] = {
    {"depth", 32},     {"hidden_size", 3584}, {"intermediate_size", 3420},
    {"num_heads", 16}, {"patch_size", 14},    {"out_hidden_size", 3584}};
constexpr DefaultSize kQwen3Vl[] = {{"depth", 27},
                                    {"hidden_size", 1152},
                                    {"intermediate_size", 4304},
                                    {"num_heads", 16},
                                    {"patch_size", 16},
                                    {"out_hidden_size", 3584},
                                    {"num_position_embeddings", 2304}};
constexpr DefaultSize kGlm4v[] = {
    {"depth", 24},       {"hidden_size", 1536}, {"intermediate_size", 13696}, {"num_heads", 12},
    {"image_size", 336}, {"patch_size", 14},    {"out_hidden_size", 4096}};

struct NamedDefaults {
  std::string_view kind;
  std::span<const DefaultSize> sizes;
};

constexpr NamedDefaults kDefaults[] = {
    {"clip_vision_model", kClip}, {"siglip_vision_model", kSiglip},
    {"pixtral", kPixtral},        {"qwen2_vl", kQwen2Vl},
    {"qwen2_5_vl", kQwen25Vl},    {"qwen3_vl", kQwen3Vl},
    {"qwen3_vl_moe", kQwen3Vl},   {"glm4v", kGlm4v},
};

}  // namespace

std::span<const DefaultSize> TowerDefaults(std::string_view kind) {
  for (const NamedDefaults& known : kDefaults) {
    if (known.kind == kind) return known.sizes;
  }
  return {};
}

std::int64_t Linear(std::int64_t in, std::int64_t out, bool bias) {
  return in * out + (bias ? out : 0);
}

std::int64_t LayerNorm(std::int64_t width) { return 2 * width; }

// `Source:` CLIPVisionTransformer: patches without bias, a class token, norms around the layers.
int ReadClipTower(Fields& f, const std::string& name, Model& model) {
  const LayerKind kind = ReadEncoderLayer(f);
  const Patches patches = ReadPatches(f, ReadImage(f));
  Tower tower = UniformTower(name, f.Size({"num_hidden_layers"}, kMostLayers), kind);
  const std::int64_t hidden = kind.hidden;
  tower.other_parameters =
      patches.inputs * hidden + hidden + (patches.count + 1) * hidden + 2 * LayerNorm(hidden);
  CloseTower(f, std::move(tower), patches, model);
  return kind.hidden;
}

int AddClipLarge(const std::string& name, Model& model, int dropped_layers, bool final_norm) {
  constexpr int kHidden = 1024;
  constexpr int kPatches = 24 * 24;
  const LayerKind kind = EncoderLayer(kHidden, 16, 4096);
  Tower tower = UniformTower(name, 24 - dropped_layers, kind);
  tower.patches = kPatches;
  tower.other_parameters = 3 * 14 * 14 * kHidden + kHidden + (kPatches + 1) * kHidden +
                           (final_norm ? 2 : 1) * LayerNorm(kHidden);
  model.towers.push_back(std::move(tower));
  return kHidden;
}

// `Source:` SiglipVisionTransformer.
int ReadSiglipTower(Fields& f, const std::string& name, Model& model, SiglipBuild build) {
  const LayerKind kind = ReadEncoderLayer(f);
  const Patches patches = ReadPatches(f, ReadImage(f));
  const int layers = f.Size({"num_hidden_layers"}, kMostLayers);
  Tower tower = UniformTower(name, std::max(layers - build.dropped_layers, 1), kind);
  const std::int64_t hidden = kind.hidden;
  tower.other_parameters =
      Linear(patches.inputs, hidden, true) + patches.count * hidden + LayerNorm(hidden);
  if (f.FlagOr({"vision_use_head"}, build.usual_head)) {
    tower.other_parameters += PoolingHead(kind);
  }
  CloseTower(f, std::move(tower), patches, model);
  return kind.hidden;
}

// `Source:` PixtralVisionModel: RMSNorm, gated feed-forwards, no biases, rotary positions.
int ReadPixtralTower(Fields& f, const std::string& name, Model& model) {
  LayerKind kind = ReadEncoderLayer(f);
  f.Take({"head_dim"});
  kind.attention.qkv_bias = false;
  kind.attention.output_bias = false;
  kind.feed_forward.gated = true;
  kind.feed_forward.bias = false;
  kind.norm_bias = false;
  const Patches patches = ReadPatches(f, ReadImage(f));
  Tower tower = UniformTower(name, f.Size({"num_hidden_layers"}, kMostLayers), kind);
  tower.other_parameters = patches.inputs * kind.hidden + kind.hidden;
  CloseTower(f, std::move(tower), patches, model);
  return kind.hidden;
}

// `Source:` InternVisionModel (the code beside the weights of OpenGVLab/InternViT-300M-448px and
// 6B): a class token, two learned scales a layer, norms of query and key over all heads.
int ReadInternTower(Fields& f, const std::string& name, Model& model) {
  LayerKind kind = ReadEncoderLayer(f);
  const std::int64_t hidden = kind.hidden;
  kind.attention.qkv_bias = f.FlagOr({"qkv_bias"}, false);
  kind.norm_bias = f.TextOr({"norm_type"}, "rms_norm") == "layer_norm";
  kind.extra_parameters = 2 * hidden;
  if (f.FlagOr({"qk_normalization"}, true)) kind.extra_parameters += 2 * hidden;
  const Patches patches = ReadPatches(f, ReadImage(f));
  Tower tower = UniformTower(name, f.Size({"num_hidden_layers"}, kMostLayers), kind);
  tower.other_parameters =
      Linear(patches.inputs, hidden, true) + hidden + (patches.count + 1) * hidden;
  CloseTower(f, std::move(tower), patches, model);
  return kind.hidden;
}

// `Source:` MoonViT (Kimi-VL, arXiv:2504.07491, section 2.1, and the code beside its weights): a
// learned grid of positions, LayerNorm, biases throughout.
int ReadMoonTower(Fields& f, const std::string& name, Model& model) {
  const int hidden = f.Size({"vt_hidden_size", "hidden_size"}, kWidestTower);
  const int heads = f.Size({"vt_num_attention_heads", "num_attention_heads"}, kMostHeads);
  const LayerKind kind =
      CheckedLayer(f, hidden, heads, f.Size({"vt_intermediate_size", "intermediate_size"}));
  const int height = f.SizeOr({"init_pos_emb_height"}, 64, 1 << 14);
  const int width = f.SizeOr({"init_pos_emb_width"}, 64, 1 << 14);
  const Patches patches = ReadPatches(f, kUsualImageSide);
  Tower tower =
      UniformTower(name, f.Size({"vt_num_hidden_layers", "num_hidden_layers"}, kMostLayers), kind);
  tower.other_parameters = Linear(patches.inputs, hidden, true) +
                           static_cast<std::int64_t>(height) * width * hidden + LayerNorm(hidden);
  CloseTower(f, std::move(tower), patches, model);
  return hidden;
}

// `Source:` Llama4VisionModel; the adapter joins 2 by 2 tokens before its two products.
int ReadLlama4Tower(Fields& f, const std::string& name, Model& model) {
  const LayerKind kind = ReadEncoderLayer(f);
  const std::int64_t hidden = kind.hidden;
  const Patches patches = ReadPatches(f, ReadImage(f));
  Tower tower = UniformTower(name, f.Size({"num_hidden_layers"}, kMostLayers), kind);
  const int in = f.SizeOr({"projector_input_dim"}, 4096);
  const int out = f.SizeOr({"projector_output_dim"}, 4096);
  tower.other_parameters = patches.inputs * hidden + hidden + (patches.count + 1) * hidden +
                           2 * LayerNorm(hidden) + Linear(kind.feed_forward.width, in, false) +
                           Linear(out, out, false);
  tower.merge = 4;
  const int width = f.SizeOr({"vision_output_dim"}, out);
  CloseTower(f, std::move(tower), patches, model);
  return width;
}

// `Source:` Qwen2-VL, arXiv:2409.12191, section 2.1, and Qwen2VisionTransformer. hidden_size is
// the language model's width here.
void ReadQwen2Tower(Fields& f, const std::string& name, Model& model) {
  const int hidden = f.Size({"embed_dim"}, kWidestTower);
  const int ratio = f.SizeOr({"mlp_ratio"}, 4, 64);
  const LayerKind kind = CheckedLayer(f, hidden, f.Size({"num_heads"}, kMostHeads), ratio * hidden);
  const Patches patches = ReadPatches(f, kUsualImageSide);
  const int frames = f.SizeOr({"temporal_patch_size"}, 2, 64);
  const int side = ReadMergeSide(f);
  Tower tower = UniformTower(name, f.Size({"depth"}, kMostLayers), kind);
  tower.merge = side * side;
  const std::int64_t joined = static_cast<std::int64_t>(hidden) * tower.merge;
  tower.other_parameters = patches.inputs * frames * hidden +
                           QwenMerger(joined, f.Size({"hidden_size"}), LayerNorm(hidden));
  CloseTower(f, std::move(tower), patches, model);
}

// `Source:` Qwen2.5-VL, arXiv:2502.13923, section 2.1.1: windows in all layers but those listed.
void ReadQwen25Tower(Fields& f, const std::string& name, Model& model) {
  const int hidden = f.Size({"hidden_size"}, kWidestTower);
  f.Take({"embed_dim"});
  LayerKind kind =
      CheckedLayer(f, hidden, f.Size({"num_heads"}, kMostHeads), f.Size({"intermediate_size"}));
  kind.norm_bias = false;
  kind.feed_forward.gated = true;
  const Patches patches = ReadPatches(f, kUsualImageSide);
  const int frames = f.SizeOr({"temporal_patch_size"}, 2, 64);
  const int side = ReadMergeSide(f);
  Tower tower = UniformTower(name, f.Size({"depth"}, kMostLayers), kind);
  tower.merge = side * side;
  const std::int64_t joined = static_cast<std::int64_t>(hidden) * tower.merge;
  tower.other_parameters =
      patches.inputs * frames * hidden + QwenMerger(joined, f.Size({"out_hidden_size"}), hidden);
  const int across = f.SizeOr({"window_size"}, 112, 1 << 14) / patches.side;
  const std::vector<int> full = ReadIndexes(f, {"fullatt_block_indexes"}, {7, 15, 23, 31});
  SplitWindows(tower, full, std::max(across * across, 1));
  CloseTower(f, std::move(tower), patches, model);
}

// `Source:` Qwen3VLVisionModel: learned positions, and one more merger for each layer whose output
// also enters the language model.
void ReadQwen3Tower(Fields& f, const std::string& name, Model& model) {
  const int hidden = f.Size({"hidden_size"}, kWidestTower);
  const LayerKind kind =
      CheckedLayer(f, hidden, f.Size({"num_heads"}, kMostHeads), f.Size({"intermediate_size"}));
  const Patches patches = ReadPatches(f, kUsualImageSide);
  const int frames = f.SizeOr({"temporal_patch_size"}, 2, 64);
  const int side = ReadMergeSide(f);
  Tower tower = UniformTower(name, f.Size({"depth"}, kMostLayers), kind);
  tower.merge = side * side;
  const std::int64_t joined = static_cast<std::int64_t>(hidden) * tower.merge;
  const std::int64_t positions = f.Size({"num_position_embeddings"});
  const std::int64_t out = f.Size({"out_hidden_size"});
  const auto deep =
      static_cast<std::int64_t>(ReadIndexes(f, {"deepstack_visual_indexes"}, {8, 16, 24}).size());
  tower.other_parameters = Linear(patches.inputs * frames, hidden, true) + positions * hidden +
                           QwenMerger(joined, out, LayerNorm(hidden)) +
                           deep * QwenMerger(joined, out, LayerNorm(joined));
  CloseTower(f, std::move(tower), patches, model);
}

// `Source:` Glm4vVisionModel: the layers' feed-forward is as wide as the tower's output, the
// merger's as wide as intermediate_size; a strided product joins the tokens.
void ReadGlmTower(Fields& f, const std::string& name, Model& model) {
  const int hidden = f.Size({"hidden_size"}, kWidestTower);
  const int out = f.Size({"out_hidden_size"});
  LayerKind kind = CheckedLayer(f, hidden, f.Size({"num_heads"}, kMostHeads), out);
  kind.attention.qkv_bias = f.FlagOr({"attention_bias"}, false);
  kind.attention.output_bias = false;
  kind.norm_bias = false;
  kind.feed_forward.gated = true;
  kind.feed_forward.bias = false;
  const Patches patches = ReadPatches(f, ReadImage(f));
  const int frames = f.SizeOr({"temporal_patch_size"}, 2, 64);
  const int side = ReadMergeSide(f);
  Tower tower = UniformTower(name, f.Size({"depth"}, kMostLayers), kind);
  tower.merge = side * side;
  const std::int64_t width = f.Size({"intermediate_size"});
  const std::int64_t merger =
      Linear(out, out, false) + LayerNorm(out) + 3 * Linear(out, width, false);
  tower.other_parameters = Linear(patches.inputs * frames, hidden, true) +
                           static_cast<std::int64_t>(patches.count) * hidden + 2 * hidden +
                           Linear(static_cast<std::int64_t>(hidden) * tower.merge, out, true) +
                           merger;
  CloseTower(f, std::move(tower), patches, model);
}

// `Source:` Whisper, arXiv:2212.04356, section 2.2: two convolutions of width 3 (the second halves
// the frames), keys without bias. Positions are counted where they are a table (Qwen2-Audio).
int ReadAudioTower(Fields& f, const std::string& name, Model& model) {
  const int hidden = f.Size({"d_model"}, kWidestTower);
  LayerKind kind = CheckedLayer(f, hidden, f.Size({"encoder_attention_heads"}, kMostHeads),
                                f.Size({"encoder_ffn_dim"}));
  kind.attention.qkv_bias = false;
  kind.extra_parameters = 2 * static_cast<std::int64_t>(hidden);
  const int bins = f.Size({"num_mel_bins"}, 1 << 14);
  Tower tower = UniformTower(name, f.Size({"encoder_layers"}, kMostLayers), kind);
  tower.other_parameters = Linear(3 * bins, hidden, true) +
                           Linear(3 * static_cast<std::int64_t>(hidden), hidden, true) +
                           LayerNorm(hidden);
  Patches frames;
  frames.count = f.SizeOr({"max_source_positions"}, 1500, kLongest);
  tower.merge = 2;  // average pooling of neighbours
  CloseTower(f, std::move(tower), frames, model);
  return hidden;
}

}  // namespace restow::hugging_face
