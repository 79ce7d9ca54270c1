// `restow.model/1`: the familiar fields of the first layers, then every kind of layer in full, so
// that reading it back gives the same price.
#include <algorithm>

#include "io/write_json.h"
#include "restow/io/write.h"

namespace restow {
namespace internal {
namespace {

Json LatentJson(const LatentAttention& latent) {
  Json json;
  if (latent.q_rank != 0) json["q_lora_rank"] = latent.q_rank;
  json["kv_lora_rank"] = latent.kv_rank;
  json["qk_nope_head_dim"] = latent.nope_dim;
  json["qk_rope_head_dim"] = latent.rope_dim;
  json["v_head_dim"] = latent.value_dim;
  return json;
}

void AddAttention(Json& json, const Attention& attention) {
  json["heads"] = attention.heads;
  if (attention.latent) {
    json["mla"] = LatentJson(*attention.latent);
  } else {
    json["kv_heads"] = attention.kv_heads;
    json["head_dim"] = attention.head_dim;
    if (attention.ValueWidth() != attention.head_dim) json["value_dim"] = attention.value_dim;
  }
  if (!attention.causal) json["causal"] = false;
  if (attention.window != 0) json["window"] = attention.window;
  if (attention.qkv_bias) json["qkv_bias"] = true;
  if (attention.output_bias) json["output_bias"] = true;
  if (attention.qk_norm) json["qk_norm"] = true;
  if (attention.output_gate) json["output_gate"] = true;
}

void AddExperts(Json& json, const Experts& experts) {
  json["experts"] = experts.count;
  json["experts_per_token"] = experts.per_token;
  json["expert_ffn"] = experts.width;
  if (experts.shared_width != 0) json["shared_ffn"] = experts.shared_width;
  if (experts.shared_gate) json["shared_gate"] = true;
  if (experts.router_bias) json["router_bias"] = true;
  if (experts.expert_bias) json["expert_bias"] = true;
}

Json KindJson(const LayerKind& kind) {
  Json json;
  json["name"] = kind.name;
  json["hidden"] = kind.hidden;
  AddAttention(json, kind.attention);
  if (kind.feed_forward.experts) {
    AddExperts(json, *kind.feed_forward.experts);
  } else {
    json["ffn"] = kind.feed_forward.width;
  }
  if (!kind.feed_forward.gated) json["gated"] = false;
  if (kind.feed_forward.bias) json["ffn_bias"] = true;
  json["norms"] = kind.norms;
  if (kind.norm_bias) json["norm_bias"] = true;
  if (kind.extra_parameters != 0) json["extra_parameters"] = kind.extra_parameters;
  json["parameters"] = CountParameters(kind).total();
  return json;
}

// Kinds, and the order as runs of equal layers.
void AddStack(Json& json, const LayerStack& stack) {
  json["kinds"] = Json::array();
  for (const LayerKind& kind : stack.kinds) json["kinds"].push_back(KindJson(kind));
  json["order"] = Json::array();
  for (std::size_t first = 0; first < stack.order.size();) {
    std::size_t last = first;
    while (last < stack.order.size() && stack.order[last] == stack.order[first]) ++last;
    Json run;
    run["kind"] = stack.kinds[static_cast<std::size_t>(stack.order[first])].name;
    run["layers"] = last - first;
    json["order"].push_back(run);
    first = last;
  }
}

Json TowerJson(const Tower& tower) {
  Json json;
  json["name"] = tower.name;
  json["parameters"] = CountParameters(tower);
  json["layers"] = tower.stack.layers();
  if (!tower.stack.kinds.empty()) json["hidden"] = tower.stack.kinds.front().hidden;
  if (tower.patches != 0) json["patches"] = tower.patches;
  json["merge"] = tower.merge;
  if (tower.other_parameters != 0) json["other_parameters"] = tower.other_parameters;
  AddStack(json, tower.stack);
  return json;
}

Json NotesJson(const std::vector<FieldNote>& notes) {
  Json json = Json::array();
  for (const FieldNote& note : notes) {
    Json field;
    field["field"] = note.path;
    if (!note.reason.empty()) field["reason"] = note.reason;
    json.push_back(field);
  }
  return json;
}

bool IsExpert(const Model& model, int kind) {
  return model.stack.kinds[static_cast<std::size_t>(kind)].feed_forward.experts.has_value();
}

// Fields that name one width for the whole model: those of its first dense and first expert layer.
void AddFamiliarFields(Json& json, const Model& model) {
  const LayerStack& stack = model.stack;
  json["layers"] = stack.layers();
  json["hidden"] = model.hidden();
  if (stack.order.empty()) return;
  const LayerKind& first = stack.kinds[static_cast<std::size_t>(stack.order.front())];
  json["heads"] = first.attention.heads;
  if (!first.attention.latent) {
    json["kv_heads"] = first.attention.kv_heads;
    json["head_dim"] = first.attention.head_dim;
  }
  const auto dense = std::find_if(stack.order.begin(), stack.order.end(),
                                  [&](int kind) { return !IsExpert(model, kind); });
  if (dense != stack.order.end()) {
    json["ffn"] = stack.kinds[static_cast<std::size_t>(*dense)].feed_forward.width;
  }
  json["vocab"] = model.vocab;
  const auto sparse = std::find_if(stack.order.begin(), stack.order.end(),
                                   [&](int kind) { return IsExpert(model, kind); });
  if (sparse != stack.order.end()) {
    const Experts& experts = *stack.kinds[static_cast<std::size_t>(*sparse)].feed_forward.experts;
    json["experts"] = experts.count;
    json["experts_per_token"] = experts.per_token;
    json["expert_ffn"] = experts.width;
    if (experts.width > 0 && experts.shared_width % experts.width == 0) {
      json["shared_experts"] = experts.shared_width / experts.width;
    } else {
      json["shared_ffn"] = experts.shared_width;
    }
    json["first_dense"] = sparse - stack.order.begin();
  }
  if (first.attention.latent) json["mla"] = LatentJson(*first.attention.latent);
}

}  // namespace

Json ModelJson(const Model& model) {
  const ModelParameters parameters = CountParameters(model);
  Json json = Header("model", "");
  json["name"] = model.name;
  json["family"] = model.family;
  json["parameters"] = parameters.total;
  json["active_parameters"] = parameters.active;
  if (model.mtp_layers > 0) json["mtp_parameters"] = parameters.mtp;
  AddFamiliarFields(json, model);
  json["tied"] = model.tied;
  if (model.mtp_layers > 0) {
    json["mtp_layers"] = model.mtp_layers;
    json["mtp_kind"] = model.stack.kinds[static_cast<std::size_t>(model.mtp_kind)].name;
  }
  if (model.context != 0) json["context"] = model.context;
  if (model.head_bias) json["head_bias"] = true;
  if (model.positions != 0) json["positions"] = model.positions;
  if (model.final_norm_bias) json["final_norm_bias"] = true;
  if (model.other_parameters != 0) json["other_parameters"] = model.other_parameters;
  if (model.projector_parameters != 0) json["projector_parameters"] = model.projector_parameters;
  AddStack(json, model.stack);
  json["submodules"] = Json::array();
  for (const Tower& tower : model.towers) json["submodules"].push_back(TowerJson(tower));
  json["ignored"] = NotesJson(model.ignored);
  json["unknown"] = NotesJson(model.unknown);
  return json;
}

}  // namespace internal

std::string ToJson(const Model& model) { return internal::Text(internal::ModelJson(model)); }

}  // namespace restow
