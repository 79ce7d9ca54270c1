// Reading Hugging Face's config.json, family by family. Private to io.
//
// A family's reader turns the fields it knows into a blueprint of the layer stack; what it did not
// take is listed as ignored or unknown. Facts about families are those of their published modelling
// code: the classes of the `transformers` package (4.57) or the code beside the weights, as named.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/model_fields.h"
#include "restow/io/document.h"
#include "restow/schema/model.h"

namespace restow::hugging_face {

// Language model -----------------------------------------------------------------------------

// A stack before its layers are laid out: what all layers share and how they differ.
struct Blueprint {
  LayerKind layer;                    // attention, norms, dense feed-forward
  std::optional<Attention> windowed;  // attention of the sliding-window layers where it differs
  std::int64_t windowed_extra = 0;    // parameters only those have
  std::optional<Experts> experts;     // of the sparse layers
  std::vector<int> windows;           // per layer, tokens; 0: all
  std::vector<bool> sparse;           // per layer: has experts

  int layers() const { return static_cast<int>(windows.size()); }
};

struct Family {
  std::string_view name;          // model_type
  std::string_view architecture;  // for files without a model_type
  void (*read)(Fields&, Model&);
  // Sizes of the configuration class, for nested configurations, which leave defaults out.
  std::span<const DefaultSize> defaults = {};
};

// The language family of a map by its model_type or architecture; null when there is none.
const Family* FindLanguageFamily(std::string_view model_type, std::string_view architecture);
// Reads a nested language model; `usual` names the family where the map does not.
void ReadNestedLanguage(Fields& outer, Fields& text, std::string_view usual, Model& model);

// Tables of families, by the file that reads them.
std::span<const Family> DenseFamilies();    // hugging_face_dense.cc
std::span<const Family> ClassicFamilies();  // hugging_face_classic.cc
std::span<const Family> ExpertFamilies();   // hugging_face_experts.cc
std::span<const Family> MultimodalFamilies();

// Building blocks --------------------------------------------------------------------------------

// Layers, hidden size, heads, vocabulary and context; no window, no experts, a gated feed-forward.
Blueprint ReadFrame(Fields& f);
// Key-value heads (absent: one per head) and the width of a head (absent: the hidden size shared
// among the heads). Errors: kBadInput when heads do not divide.
void ReadHeads(Fields& f, Blueprint& plan);
// The two halves of it, for families that state key-value heads in their own way or not at all.
void ReadHeadWidth(Fields& f, Blueprint& plan);
void SetKeyHeads(Fields& f, Blueprint& plan, int kv_heads);
// ReadFrame, ReadHeads and intermediate_size: what most decoders state.
Blueprint ReadDecoder(Fields& f);
// Multi-head latent attention with its biases; v_head_dim may be absent where a usual one is given.
// `Source:` DeepSeek-V2, arXiv:2405.04434, section 2.1.
void ReadLatent(Fields& f, Blueprint& plan, int usual_value_dim = 0);
void ReadTied(Fields& f, bool when_absent);
// Biases of all four attention projections.
void SetAttentionBias(Blueprint& plan, bool bias);
// Norms of query and key over all heads together, as RMSNorm.
void AddWideNorms(Blueprint& plan);

// Windows of the layers. `pattern` > 1 without a list of layer_types: every pattern-th layer sees
// all tokens, the others the window; 0: every layer has the window.
void ReadWindows(Fields& f, Blueprint& plan, int pattern);
// The same where `use_sliding_window` and `max_window_layers` decide (Qwen).
void ReadOptionalWindows(Fields& f, Blueprint& plan);

// Experts: the count under `count_names`, how many a token visits, and the width of one.
Experts ReadExperts(Fields& f, FieldNames width_names);
void AllSparse(Blueprint& plan);
// first_k_dense_replace and moe_layer_freq (a step or a list of 0 and 1).
void ReadDenseHead(Fields& f, Blueprint& plan);
// decoder_sparse_step and mlp_only_layers.
void ReadSparseStep(Fields& f, Blueprint& plan);

// Lays the layers out, kinds named dense, moe, dense-window, moe-window.
void LayOut(const Blueprint& plan, Model& model);
// Multi-token prediction layers, each like the last layer of the stack.
void SetPrediction(Model& model, int layers);

// Towers ---------------------------------------------------------------------------------------

// Side of the square image that stands for an input where the configuration states no image size,
// in pixels: what Gemma 3 trains on, and near the 1280 merged tokens at which Qwen2-VL's
// preprocessor stops by default.
inline constexpr int kUsualImageSide = 896;

std::int64_t Linear(std::int64_t in, std::int64_t out, bool bias);
std::int64_t LayerNorm(std::int64_t width);  // weight and bias

// Encoders by their kind; each adds a tower named `name` and returns its output width.
int ReadClipTower(Fields& f, const std::string& name, Model& model);
// `usual_head`: whether the pooling head is built where the configuration does not say.
struct SiglipBuild {
  bool usual_head = true;
  int dropped_layers = 0;
};
int ReadSiglipTower(Fields& f, const std::string& name, Model& model, SiglipBuild build);
int ReadPixtralTower(Fields& f, const std::string& name, Model& model);
int ReadInternTower(Fields& f, const std::string& name, Model& model);
int ReadMoonTower(Fields& f, const std::string& name, Model& model);
int ReadLlama4Tower(Fields& f, const std::string& name, Model& model);
void ReadQwen2Tower(Fields& f, const std::string& name, Model& model);
void ReadQwen25Tower(Fields& f, const std::string& name, Model& model);
void ReadQwen3Tower(Fields& f, const std::string& name, Model& model);
void ReadGlmTower(Fields& f, const std::string& name, Model& model);
int ReadAudioTower(Fields& f, const std::string& name, Model& model);
// A tower built into a model's code: CLIP ViT-L/14 at 336 pixels
// (openai/clip-vit-large-patch14-336) with its last `dropped_layers` left out.
int AddClipLarge(const std::string& name, Model& model, int dropped_layers, bool final_norm);

// The defaults of nested vision configurations, by their model_type; empty for others.
std::span<const DefaultSize> TowerDefaults(std::string_view kind);

// Notes and refusals -----------------------------------------------------------------------------

// Throws kUnsupported when the map is of a family, or has a feature, that cannot be priced.
void RefuseUnpriced(const Node& map);
// Lists what `f` did not take: ignored with its reason, or unknown.
void NoteUntaken(const Fields& f, Model& model);
// The reason why a key decides nothing; "" for unknown keys.
std::string_view IgnoredReason(std::string_view key);

std::string TextOf(const Node& map, std::string_view key);  // "" when absent
std::string FirstArchitecture(const Node& map);

}  // namespace restow::hugging_face
