// `restow.model/1` and the same fields inline in a job file.
//
// Two forms, which may be mixed: the familiar fields (one width for the whole model, a dense head,
// experts behind it), or `kinds` with their `order`, which say everything and win over the former.
#include <fmt/format.h>

#include <algorithm>

#include "io/model_fields.h"
#include "io/model_reader.h"

namespace restow {
namespace {

constexpr std::int64_t kMostExtras = std::int64_t{1} << 40;

std::int64_t LongOr(Fields& f, FieldNames names, std::int64_t fallback) {
  const Node* value = f.Take(names);
  if (value == nullptr) return fallback;
  const std::int64_t n = value->AsInteger();
  if (n < 0 || n > kMostExtras) {
    ThrowBadInput(fmt::format("{} is {}; a count from 0 to {} is expected", value->path,
                              value->Written(), kMostExtras),
                  value->where);
  }
  return n;
}

// Both the names of Hugging Face's files and short ones.
LatentAttention ReadLatent(const Node& map, Model& model) {
  Fields f(map, model);
  LatentAttention latent;
  latent.q_rank = f.CountOr({"q_lora_rank", "q_rank"}, 0);
  latent.kv_rank = f.Size({"kv_lora_rank", "kv_rank"});
  latent.nope_dim = f.Size({"qk_nope_head_dim", "nope_dim"}, kMostHeads);
  latent.rope_dim = f.Size({"qk_rope_head_dim", "rope_dim"}, kMostHeads);
  latent.value_dim = f.Size({"v_head_dim", "value_dim"}, kMostHeads);
  return latent;
}

void RequireDivides(const Fields& f, int part, int whole, FieldNames names,
                    const std::string& meaning) {
  if (whole % part == 0) return;
  const Node* at = f.Peek(names);
  ThrowBadInput(fmt::format("{} is {}; {}", FieldPath(f.node(), *names.begin()), part, meaning),
                at != nullptr ? at->where : f.node().where);
}

void ReadHeadWidths(Fields& f, int hidden, Attention& attention) {
  attention.kv_heads = f.SizeOr({"kv_heads"}, attention.heads, kMostHeads);
  RequireDivides(f, attention.kv_heads, attention.heads, {"kv_heads"},
                 fmt::format("it must divide the {} heads", attention.heads));
  if (const auto stated = f.SizeIfStated({"head_dim"}, kMostHeads)) {
    attention.head_dim = *stated;
  } else {
    RequireDivides(f, attention.heads, hidden, {"heads"},
                   fmt::format("it must divide hidden, {}, or head_dim be stated", hidden));
    attention.head_dim = hidden / attention.heads;
  }
  attention.value_dim = f.CountOr({"value_dim"}, 0, kMostHeads);
}

Attention ReadAttention(Fields& f, int hidden, bool causal) {
  Attention attention;
  attention.heads = f.Size({"heads"}, kMostHeads);
  if (const Node* mla = f.Take({"mla"})) {
    attention.latent = ReadLatent(*mla, f.model());
    attention.kv_heads = attention.heads;
    attention.head_dim = attention.QueryWidth();
    f.Take({"kv_heads"});
    f.Take({"head_dim"});
  } else {
    ReadHeadWidths(f, hidden, attention);
  }
  attention.causal = f.FlagOr({"causal"}, causal);
  attention.window = f.CountOr({"window"}, 0, kLongest);
  attention.qkv_bias = f.FlagOr({"qkv_bias"}, false);
  attention.output_bias = f.FlagOr({"output_bias"}, false);
  attention.qk_norm = f.FlagOr({"qk_norm"}, false);
  attention.output_gate = f.FlagOr({"output_gate"}, false);
  return attention;
}

Experts ReadExperts(Fields& f) {
  Experts experts;
  experts.count = f.Size({"experts"}, kMostExperts);
  experts.per_token = f.Size({"experts_per_token"}, kMostExperts);
  if (experts.per_token > experts.count) {
    const Node& at = *f.Peek({"experts_per_token"});
    ThrowBadInput(fmt::format("{} is {}; at most all {} experts can be visited", at.path,
                              experts.per_token, experts.count),
                  at.where);
  }
  experts.width = f.Size({"expert_ffn"});
  const int shared = f.CountOr({"shared_experts"}, 0, 64);
  experts.shared_width =
      f.CountOr({"shared_ffn", "shared_expert_ffn"}, shared * experts.width, 1 << 30);
  experts.shared_gate = f.FlagOr({"shared_gate"}, false);
  experts.router_bias = f.FlagOr({"router_bias"}, false);
  experts.expert_bias = f.FlagOr({"expert_bias"}, false);
  return experts;
}

// One layer but for its feed-forward's width and experts, which differ in the two forms.
LayerKind ReadLayer(Fields& f, bool causal) {
  LayerKind kind;
  kind.hidden = f.Size({"hidden"});
  kind.attention = ReadAttention(f, kind.hidden, causal);
  kind.feed_forward.gated = f.FlagOr({"gated"}, true);
  kind.feed_forward.bias = f.FlagOr({"ffn_bias"}, false);
  kind.norms = f.CountOr({"norms"}, 2, 64);
  kind.norm_bias = f.FlagOr({"norm_bias"}, false);
  kind.extra_parameters = LongOr(f, {"extra_parameters"}, 0);
  return kind;
}

void NoteUnknown(const Fields& f, Model& model) {
  for (const auto* member : f.Untaken()) {
    model.unknown.push_back({FieldPath(f.node(), member->first), "not a field of restow.model/1"});
  }
}

LayerKind ReadKind(const Node& map, bool causal, Model& model) {
  Fields f(map, model);
  LayerKind kind = ReadLayer(f, causal);
  kind.name = f.TextOr({"name"}, "");
  f.Take({"parameters"});
  if (f.Peek({"experts"}) != nullptr) {
    kind.feed_forward.experts = ReadExperts(f);
    kind.feed_forward.width = f.CountOr({"ffn"}, 0);
  } else {
    kind.feed_forward.width = f.Size({"ffn"});
  }
  NoteUnknown(f, model);
  return kind;
}

int KindNamed(const LayerStack& stack, const Node& name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < stack.kinds.size(); ++i) {
    if (stack.kinds[i].name == name.AsString()) return static_cast<int>(i);
    names.push_back(stack.kinds[i].name);
  }
  ThrowBadInput(
      fmt::format("{} is {}; the kinds are: {}", name.path, name.Written(), fmt::join(names, ", ")),
      name.where);
}

// Runs of equal layers: [{kind: dense, layers: 3}, ...].
void ReadOrder(const Node& order, LayerStack& stack, Model& model) {
  for (const Node& run : order.AsList()) {
    Fields f(run, model);
    const Node* kind = f.Take({"kind"});
    if (kind == nullptr) f.Missing({"kind"}, "the name of a kind is expected");
    const int layers = f.Size({"layers"}, kMostLayers);
    stack.order.insert(stack.order.end(), static_cast<std::size_t>(layers),
                       KindNamed(stack, *kind));
    if (stack.layers() > kMostLayers) {
      ThrowBadInput(fmt::format("{} has more than {} layers", order.path, kMostLayers),
                    order.where);
    }
  }
}

LayerStack ReadKinds(Fields& f, const Node& kinds, bool causal) {
  LayerStack stack;
  for (const Node& kind : kinds.AsList()) {
    stack.kinds.push_back(ReadKind(kind, causal, f.model()));
  }
  const Node* order = f.Take({"order"});
  if (order == nullptr) f.Missing({"order"}, "a list of {kind, layers} is expected");
  ReadOrder(*order, stack, f.model());
  if (stack.order.empty()) f.Missing({"order"}, "at least one layer is expected");
  const auto stated = f.SizeIfStated({"layers"}, kMostLayers);
  if (stated && *stated != stack.layers()) {
    ThrowBadInput(fmt::format("{} is {}; order has {}", FieldPath(f.node(), "layers"), *stated,
                              stack.layers()),
                  f.Peek({"layers"})->where);
  }
  return stack;
}

// Counts of the familiar form that `kinds` say better.
void SkipFamiliar(Fields& f) {
  for (const std::string_view name :
       {"hidden", "heads", "kv_heads", "head_dim", "value_dim", "ffn", "experts",
        "experts_per_token", "expert_ffn", "shared_experts", "shared_ffn", "first_dense", "mla"}) {
    f.Take({name});
  }
}

void AppendLayers(LayerStack& stack, const LayerKind& kind, int layers) {
  if (layers == 0) return;
  stack.order.insert(stack.order.end(), static_cast<std::size_t>(layers),
                     static_cast<int>(stack.kinds.size()));
  stack.kinds.push_back(kind);
}

LayerStack ReadFamiliar(Fields& f, bool causal) {
  const int layers = f.Size({"layers"}, kMostLayers);
  LayerKind dense = ReadLayer(f, causal);
  dense.name = causal ? "dense" : "encoder";
  LayerStack stack;
  if (f.Peek({"experts"}) == nullptr) {
    dense.feed_forward.width = f.Size({"ffn"});
    AppendLayers(stack, dense, layers);
    return stack;
  }
  const int first = f.CountOr({"first_dense"}, 0, layers);
  LayerKind sparse = dense;
  sparse.name = "moe";
  sparse.feed_forward.experts = ReadExperts(f);
  dense.feed_forward.width = first > 0 ? f.Size({"ffn"}) : f.CountOr({"ffn"}, 0);
  AppendLayers(stack, dense, first);
  AppendLayers(stack, sparse, layers - first);
  return stack;
}

LayerStack ReadStack(Fields& f, bool causal) {
  const Node* kinds = f.Take({"kinds"});
  if (kinds == nullptr) return ReadFamiliar(f, causal);
  LayerStack stack = ReadKinds(f, *kinds, causal);
  SkipFamiliar(f);
  return stack;
}

Tower ReadTower(const Node& map, Model& model) {
  Fields f(map, model);
  Tower tower;
  tower.name = f.TextOr({"name"}, "vision");
  tower.stack = ReadStack(f, false);
  tower.patches = f.CountOr({"patches"}, 0, kLongest);
  tower.merge = f.SizeOr({"merge"}, 1, kLongest);
  tower.other_parameters = LongOr(f, {"other_parameters"}, 0);
  f.Take({"parameters"});
  NoteUnknown(f, model);
  return tower;
}

void ReadTowers(Fields& f, Model& model) {
  if (const Node* vision = f.Take({"vision"})) model.towers.push_back(ReadTower(*vision, model));
  const Node* towers = f.Take({"submodules"});
  if (towers == nullptr) return;
  for (const Node& tower : towers->AsList()) model.towers.push_back(ReadTower(tower, model));
}

void ReadPrediction(Fields& f, Model& model) {
  model.mtp_layers = f.CountOr({"mtp_layers"}, 0, kMostLayers);
  const Node* kind = f.Take({"mtp_kind"});
  if (model.mtp_layers == 0) return;
  model.mtp_kind = kind != nullptr ? KindNamed(model.stack, *kind) : model.stack.order.back();
}

// What a written model reports about itself, and notes for people.
void SkipReported(Fields& f) {
  for (const std::string_view name :
       {"schema", "version", "source", "parameters", "active_parameters", "mtp_parameters",
        "ignored", "unknown", "assumed"}) {
    f.Take({name});
  }
}

}  // namespace

bool IsInlineModel(const Node& document) {
  if (!document.is_map()) return false;
  const Node* schema = document.Find("schema");
  if (schema != nullptr && schema->is_scalar() && schema->text == "restow.model/1") return true;
  return document.Find("layers") != nullptr && document.Find("hidden") != nullptr &&
         document.Find("model_type") == nullptr;
}

Model ReadInlineModel(const Node& fields, const std::string& name) {
  Model model;
  Fields f(fields, model);
  SkipReported(f);
  model.name = f.TextOr({"name"}, name);
  model.family = f.TextOr({"family"}, "");
  model.stack = ReadStack(f, true);
  model.vocab = f.Size({"vocab"});
  model.tied = f.FlagOr({"tied"}, false);
  model.head_bias = f.FlagOr({"head_bias"}, false);
  model.positions = f.CountOr({"positions"}, 0, kLongest);
  model.final_norm_bias = f.FlagOr({"final_norm_bias"}, false);
  model.other_parameters = LongOr(f, {"other_parameters"}, 0);
  model.projector_parameters = LongOr(f, {"projector_parameters"}, 0);
  model.context = f.CountOr({"context"}, 0, kLongest);
  ReadPrediction(f, model);
  ReadTowers(f, model);
  NoteUnknown(f, model);
  RefuseAbsurd(model, fields.where);
  return model;
}

}  // namespace restow
