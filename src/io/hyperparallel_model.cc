// The model of one of HyperParallel's files: sizes stated in place, a config.json on disk, or a
// preset whose name is the last part of the path.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "io/fields.h"
#include "io/hyperparallel_file.h"
#include "io/model_reader.h"
#include "restow/base/error.h"
#include "restow/base/text.h"
#include "restow/io/presets.h"
#include "restow/io/read.h"

namespace restow::hyperparallel {
namespace {

// HyperParallel's names (Hugging Face's and torchtitan's) for the fields of `restow.model/1`.
struct Alias {
  const char* field;
  std::vector<std::string> names;
};

const std::vector<Alias>& Aliases() {
  static const std::vector<Alias> aliases = {
      {"layers", {"num_hidden_layers", "num_layers", "n_layers"}},
      {"hidden", {"hidden_size", "dim"}},
      {"heads", {"num_attention_heads", "num_heads", "n_heads"}},
      {"kv_heads", {"num_key_value_heads", "n_kv_heads"}},
      {"head_dim", {"head_dim"}},
      {"ffn", {"intermediate_size", "inter_dim", "hidden_dim"}},
      {"vocab", {"vocab_size"}},
      {"context", {"max_position_embeddings"}},
      {"experts", {"num_experts", "n_routed_experts", "num_local_experts"}},
      {"experts_per_token", {"num_experts_per_tok"}},
      {"expert_ffn", {"moe_intermediate_size", "moe_inter_dim"}},
      {"shared_experts", {"n_shared_experts", "num_shared_experts"}},
      {"shared_ffn", {"shared_expert_intermediate_size"}},
      {"first_dense", {"first_k_dense_replace", "n_dense_layers", "num_dense_layers"}},
      {"mtp_layers", {"mtp_depth", "num_nextn_predict_layers", "mtp_num_hidden_layers"}},
      {"tied", {"tie_word_embeddings", "enable_weight_tying"}},
      {"qk_norm", {"qk_norm", "use_qk_norm", "qk_layernorm"}},
      {"output_gate", {"attn_output_gate"}},
      {"q_rank", {"q_lora_rank"}},
      {"kv_rank", {"kv_lora_rank"}},
      {"nope_dim", {"qk_nope_head_dim"}},
      {"rope_dim", {"qk_rope_head_dim"}},
      {"value_dim", {"v_head_dim"}},
  };
  return aliases;
}

// Keys of `config_overrides` and `model` that are no sizes of the model.
bool IsModelSize(const std::string& key) {
  for (const Alias& alias : Aliases()) {
    const auto end = alias.names.end();
    if (std::find(alias.names.begin(), end, key) != end) return true;
  }
  return key == "layer_types" || key == "text_config" || key == "vision_config";
}

// The model's sizes as stated: `config_overrides` and what stands beside it.
struct Statement {
  Node sizes;  // a map under the names written
  const Node* Find(const char* field) const {
    for (const Alias& alias : Aliases()) {
      if (std::string_view(alias.field) != field) continue;
      for (const std::string& name : alias.names) {
        const Node* found = sizes.Find(name);
        if (found != nullptr && !found->is_null()) return found;
      }
    }
    return nullptr;
  }
  bool complete() const {
    return Find("layers") != nullptr && Find("hidden") != nullptr && Find("heads") != nullptr &&
           Find("vocab") != nullptr;
  }
};

void Put(Node& map, const std::string& key, Node value, const SourcePosition& where) {
  for (auto& [name, old] : map.members) {
    if (name != key) continue;
    old = std::move(value);
    return;
  }
  map.members.emplace_back(key, std::move(value));
  map.key_positions.push_back(where);
}

Statement Sizes(File& file, const Node& model) {
  Statement statement;
  statement.sizes.kind = NodeKind::kMap;
  statement.sizes.where = model.where;
  statement.sizes.path = "model";
  std::vector<std::string> sections = {"model"};
  if (file.Find({"model.config_overrides"}) != nullptr)
    sections.push_back("model.config_overrides");
  for (const std::string& section : sections) {
    const Node& map = *file.Find({section});
    map.ExpectMap();
    for (std::size_t i = 0; i < map.members.size(); ++i) {
      const auto& [key, value] = map.members[i];
      if (!IsModelSize(key)) continue;
      file.Find({section + "." + key});
      Put(statement.sizes, key, value, map.key_positions[i]);
    }
  }
  return statement;
}

Node Number(std::int64_t value, const std::string& path, const SourcePosition& where) {
  Node node;
  node.kind = NodeKind::kScalar;
  node.text = std::to_string(value);
  node.path = path;
  node.where = where;
  return node;
}

std::int64_t IntegerOr(const Node* node, std::int64_t fallback) {
  return node == nullptr ? fallback : node->AsInteger();
}

// Feed-forward width where none is stated: 4h, less a third for the gate, times the multiplier,
// up to a multiple (HyperParallel's rule, after Llama's).
std::int64_t DerivedWidth(File& file, std::int64_t hidden) {
  const Node* multiplier =
      file.Find({"model.ffn_dim_multiplier", "model.config_overrides.ffn_dim_multiplier"});
  const std::int64_t multiple = std::max<std::int64_t>(
      1, IntegerOr(file.Find({"model.multiple_of", "model.config_overrides.multiple_of"}), 1));
  double width = 4.0 * static_cast<double>(hidden);
  if (multiplier != nullptr) width *= multiplier->AsNumber() + 0.01;
  const auto whole = static_cast<std::int64_t>(width * 2 / 3);
  return (whole + multiple - 1) / multiple * multiple;
}

void RefuseLinearLayers(const Statement& statement) {
  const Node* types = statement.sizes.Find("layer_types");
  if (types == nullptr || !types->is_list()) return;
  for (const Node& type : types->items) {
    if (WordOf(type).find("linear") == std::string::npos) continue;
    ThrowUnsupported(fmt::format("{} is {}: layers of linear attention are not available in this "
                                 "version",
                                 type.path, type.Written()),
                     type.where);
  }
}

// Multi-head latent attention, where a latent rank is stated.
void PutLatent(const Statement& statement, Node& fields, std::vector<FieldNote>& notes) {
  const Node* kv_rank = statement.Find("kv_rank");
  const Node* q_rank = statement.Find("q_rank");
  if (kv_rank == nullptr || kv_rank->AsInteger() == 0) {
    if (q_rank == nullptr || q_rank->AsInteger() == 0) return;
    ThrowUnsupported(fmt::format("{} is {} without kv_lora_rank: compressed queries over plain "
                                 "keys are not available in this version",
                                 q_rank->path, q_rank->Written()),
                     q_rank->where);
  }
  Node mla;
  mla.kind = NodeKind::kMap;
  mla.path = "model.mla";
  mla.where = kv_rank->where;
  const std::int64_t value =
      IntegerOr(statement.Find("value_dim"), IntegerOr(statement.Find("head_dim"), 128));
  const std::int64_t nope = IntegerOr(statement.Find("nope_dim"), value);
  const std::array<std::pair<const char*, std::int64_t>, 5> parts = {
      {{"q_rank", IntegerOr(q_rank, 0)},
       {"kv_rank", kv_rank->AsInteger()},
       {"nope_dim", nope},
       {"rope_dim", IntegerOr(statement.Find("rope_dim"), 64)},
       {"value_dim", value}}};
  for (const auto& [key, number] : parts) {
    Put(mla, key, Number(number, fmt::format("model.mla.{}", key), mla.where), mla.where);
  }
  if (statement.Find("nope_dim") == nullptr) {
    notes.push_back({"model.qk_nope_head_dim",
                     fmt::format("not stated; {} as the width of a head's value", nope)});
  }
  Put(fields, "mla", std::move(mla), fields.where);
}

void PutExperts(const Statement& statement, bool enabled, Node& fields) {
  const Node* experts = statement.Find("experts");
  if (!enabled || experts == nullptr || experts->AsInteger() == 0) return;
  const auto put = [&](const char* key, const Node* node) {
    if (node != nullptr) Put(fields, key, *node, node->where);
  };
  put("experts", experts);
  put("experts_per_token", statement.Find("experts_per_token"));
  // Mixtral calls the width of an expert intermediate_size.
  const Node* width = statement.Find("expert_ffn");
  put("expert_ffn", width != nullptr ? width : statement.Find("ffn"));
  const Node* shared = statement.Find("shared_experts");
  if (shared != nullptr && shared->AsInteger() > 0) put("shared_experts", shared);
  const Node* shared_width = statement.Find("shared_ffn");
  if (shared_width != nullptr && shared_width->AsInteger() > 0) put("shared_ffn", shared_width);
  const Node* dense = statement.Find("first_dense");
  if (dense != nullptr && dense->AsInteger() > 0) put("first_dense", dense);
}

Model InlineModel(File& file, const Statement& statement, const std::string& name,
                  std::vector<FieldNote>& notes) {
  RefuseLinearLayers(statement);
  Node fields;
  fields.kind = NodeKind::kMap;
  fields.path = "model";
  fields.where = statement.sizes.where;
  for (const char* key : {"layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab",
                          "context", "tied", "output_gate"}) {
    const Node* node = statement.Find(key);
    if (node != nullptr) Put(fields, key, *node, node->where);
  }
  const Node* hidden = statement.Find("hidden");
  if (statement.Find("ffn") == nullptr) {
    const std::int64_t width = DerivedWidth(file, ReadCount(*hidden, 1 << 24));
    Put(fields, "ffn", Number(width, "model.ffn", hidden->where), hidden->where);
    notes.push_back({"model.intermediate_size",
                     fmt::format("not stated; {} from hidden_size, as HyperParallel does", width)});
  }
  const Node* enabled = file.Find({"model.moe_enabled", "model.config_overrides.moe_enabled"});
  PutExperts(statement, enabled == nullptr || enabled->AsBool(), fields);
  PutLatent(statement, fields, notes);
  const Node* mtp = statement.Find("mtp_layers");
  if (mtp != nullptr && mtp->AsInteger() > 0) Put(fields, "mtp_layers", *mtp, mtp->where);
  const Node* norm = statement.Find("qk_norm");
  if (norm != nullptr) {
    Put(fields, "qk_norm", *norm, norm->where);
  } else if (Lower(name).find("qwen3") != std::string::npos) {
    // HyperParallel's own inference for a configuration that does not say.
    Node yes = Number(0, "model.qk_norm", fields.where);
    yes.text = "true";
    Put(fields, "qk_norm", std::move(yes), fields.where);
  }
  return ReadInlineModel(fields, name);
}

// ---- A configuration on disk or in a preset --------------------------------------------------

bool IsFile(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::string LastPart(std::string path) {
  while (!path.empty() && path.back() == '/') path.pop_back();
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// "qwen3-30b-a3b" of "Qwen/Qwen3-30B-A3B-Base": a fine-tune or date has the sizes of its base.
std::vector<std::string> PresetNames(const std::string& path) {
  std::string name = Lower(LastPart(path));
  std::replace(name.begin(), name.end(), '_', '-');
  std::vector<std::string> names = {name};
  const std::size_t dash = name.rfind('-');
  if (dash == std::string::npos) return names;
  const std::string suffix = name.substr(dash + 1);
  const bool date =
      suffix.size() >= 4 && suffix.find_first_not_of("0123456789") == std::string::npos;
  if (date || suffix == "base" || suffix == "instruct" || suffix == "chat" || suffix == "hf") {
    names.push_back(name.substr(0, dash));
  }
  return names;
}

// Puts the stated sizes over a configuration's; those of the language model go where it keeps them.
void Override(Node& config, const Node& sizes) {
  Node* text = nullptr;
  for (auto& [key, value] : config.members) {
    if (key == "text_config" && value.is_map()) text = &value;
  }
  for (std::size_t i = 0; i < sizes.members.size(); ++i) {
    const auto& [key, value] = sizes.members[i];
    const Node* old = config.Find(key);
    if (value.is_map() && old != nullptr && old->is_map()) {
      for (auto& [name, member] : config.members) {
        if (name == key) Override(member, value);
      }
    } else if (text != nullptr && old == nullptr) {
      Put(*text, key, value, sizes.key_positions[i]);
    } else {
      Put(config, key, value, sizes.key_positions[i]);
    }
  }
}

// A cropped model keeps the first layers.
void CropLists(Node& config) {
  const Node* layers = config.Find("num_hidden_layers");
  const std::size_t count =
      layers == nullptr ? 0 : static_cast<std::size_t>(layers->AsInt(1, 1 << 20));
  for (auto& [key, value] : config.members) {
    if (key == "text_config" && value.is_map()) CropLists(value);
    if (key == "layer_types" && count > 0 && value.items.size() > count) value.items.resize(count);
  }
}

Model FromConfig(Node config, const Statement& statement, const std::string& name) {
  Override(config, statement.sizes);
  if (!statement.sizes.members.empty()) CropLists(config);
  return ReadHuggingFace(config, name);
}

// The stated sizes of a preset's language model, nested ones beside the others.
std::vector<const Node*> FlatSizes(const Node& sizes) {
  std::vector<const Node*> flat;
  for (const auto& [key, value] : sizes.members) {
    if (value.is_map()) {
      for (const Node* inner : FlatSizes(value)) flat.push_back(inner);
    } else if (!value.is_null()) {
      flat.push_back(&value);
    }
  }
  return flat;
}

bool EndsWith(const std::string& path, const std::vector<std::string>& names) {
  const std::string last = path.substr(path.rfind('.') + 1);
  return std::find(names.begin(), names.end(), last) != names.end();
}

// A preset cropped to its first layers; that is the one size a trainer may change of it.
Model FromPreset(const std::string& preset, const Statement& statement, const Node& path) {
  Model model = ModelPreset(preset, path.where);
  for (const Node* size : FlatSizes(statement.sizes)) {
    if (!EndsWith(size->path, {"num_hidden_layers", "num_layers", "n_layers"})) {
      RefuseValue(*size, fmt::format("the preset '{}' has fixed widths; state all sizes of the "
                                     "model, or name a folder with its config.json",
                                     preset));
    }
    const int layers = size->AsInt(1, model.stack.layers());
    model.stack.order.resize(static_cast<std::size_t>(layers));
  }
  return model;
}

[[noreturn]] void RefusePath(const Node& path, const std::string& looked_at) {
  const std::vector<std::string> presets = ModelPresets();
  const std::string nearest = NearestWord(PresetNames(path.text).back(), presets);
  RefuseValue(
      path, fmt::format("there is no {} and no model preset of that name{}: put the "
                        "model's config.json there, or state all its sizes in "
                        "model.config_overrides",
                        looked_at, nearest.empty() ? "" : fmt::format(" (nearest: {})", nearest)));
}

Model FromPath(const Node& path, const Statement& statement, const std::string& base_folder,
               std::string& read) {
  std::string local = ResolvePath(path.AsString(), base_folder);
  if (!IsFile(local)) local += "/config.json";
  if (IsFile(local)) {
    const std::string text = ReadFileText(local);
    read += text;
    return FromConfig(ParseDocument(text, Language::kJson, local), statement, LastPart(path.text));
  }
  const std::vector<std::string> presets = ModelPresets();
  for (const std::string& name : PresetNames(path.text)) {
    if (std::find(presets.begin(), presets.end(), name) == presets.end()) continue;
    read += name;
    return FromPreset(name, statement, path);
  }
  RefusePath(path, local);
}

}  // namespace

Model ReadModel(File& file, const std::string& base_folder, std::string& read,
                std::vector<FieldNote>& notes) {
  const Node* model = file.Find({"model"});
  if (model == nullptr) {
    ThrowBadInput("model is missing; state the model's sizes or its path", file.root().where);
  }
  const Statement statement = Sizes(file, *model);
  const Node* name = file.Find({"model.name"});
  const Node* path = file.Find({"model.config_path"});
  for (const char* key : {"model.pretrained_model_name_or_path", "model.weights_path"}) {
    const Node* other = file.Find({key});
    if (path == nullptr) path = other;
  }
  if (statement.complete()) {
    return InlineModel(file, statement, name != nullptr ? name->AsString() : "inline", notes);
  }
  if (path != nullptr) return FromPath(*path, statement, base_folder, read);
  const Node* target = file.Find({"model._target_"});
  const std::string built =
      target == nullptr ? "" : fmt::format("it is built by code ({}); ", target->AsString());
  ThrowBadInput(fmt::format("model states neither its sizes nor a path: {}state hidden_size, "
                            "num_hidden_layers, num_attention_heads and vocab_size in "
                            "model.config_overrides",
                            built),
                model->where);
}

}  // namespace restow::hyperparallel
