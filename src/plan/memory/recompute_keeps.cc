// What `selective` keeps and gives up, by framework. Source: memory-model.md section 6.
#include <algorithm>
#include <array>
#include <string_view>

#include "plan/memory/memory.h"
#include "plan/memory/saved.h"

namespace restow::plan {
namespace {

// Modules of a list, as Megatron-LM (--recompute-modules) and MindSpeed name them.
struct Modules {
  bool core_attention = false, layernorm = false, mla_up_proj = false, mlp = false;
  bool moe_act = false, activation = false, shared_experts = false, moe = false;
};

struct ModuleName {
  std::string_view name;
  bool Modules::*field;
};
constexpr std::array<ModuleName, 8> kModuleNames = {{{"core_attn", &Modules::core_attention},
                                                     {"layernorm", &Modules::layernorm},
                                                     {"mla_up_proj", &Modules::mla_up_proj},
                                                     {"mlp", &Modules::mlp},
                                                     {"moe_act", &Modules::moe_act},
                                                     {"activation-function", &Modules::activation},
                                                     {"shared_experts", &Modules::shared_experts},
                                                     {"moe", &Modules::moe}}};

// Megatron-LM's own default list is core_attn alone.
Modules ModulesOf(const MemorySoftware& s) {
  Modules modules;
  const std::vector<std::string>& stated = s.job().training.options.recompute_modules;
  if (stated.empty()) modules.core_attention = true;
  for (const std::string& name : stated) {
    for (const ModuleName& known : kModuleNames) {
      if (name == known.name) modules.*known.field = true;
    }
  }
  return modules;
}

void Add(TensorSet* set, std::initializer_list<Tensor> tensors) {
  for (const Tensor t : tensors) set->set(Index(t));
}

void DropAttention(const Modules& modules, const LayerDims& d, SelectiveDrops* drops) {
  if (modules.core_attention) {
    Add(&drops->dropped, {Tensor::kStatistics, Tensor::kScores, Tensor::kPassedKeyValue});
    drops->pins_qkv = !d.latent;
  }
  if (modules.mla_up_proj && d.latent) {
    Add(&drops->dropped, {Tensor::kQuery, Tensor::kKey, Tensor::kValue});
  }
}

void DropNorms(const Modules& modules, const LayerDims& d, SelectiveDrops* drops) {
  if (!modules.layernorm) return;  // only where a norm is a module of its own
  if (d.latent) Add(&drops->dropped, {Tensor::kNorm1Output});
  if (d.moe) Add(&drops->dropped, {Tensor::kNorm2Output});
}

void DropFeedForward(const Modules& modules, const LayerDims& d, SelectiveDrops* drops) {
  TensorSet* set = &drops->dropped;
  if (!d.moe && modules.mlp) {
    Add(set, {Tensor::kNorm2Output, Tensor::kFirstOutput, Tensor::kActivated, Tensor::kActivation});
  }
  if (d.moe ? modules.moe_act : modules.activation) {
    Add(set, {Tensor::kActivation, Tensor::kActivated});
  }
  const std::initializer_list<Tensor> shared = {
      Tensor::kSharedFirstOutput, Tensor::kSharedActivated, Tensor::kSharedActivation};
  if (modules.shared_experts || (d.moe && modules.moe)) Add(set, shared);
  if (d.moe && modules.moe) {
    Add(set, {Tensor::kRouter, Tensor::kExpertInput, Tensor::kFirstOutput, Tensor::kActivated,
              Tensor::kActivation});
  }
}

// Operators that a per-operator policy saves, in the order they run.
constexpr std::array<Tensor, 13> kOperators = {
    Tensor::kQueryProduct,  Tensor::kKeyProduct,      Tensor::kLatentProduct,
    Tensor::kValueProduct,  Tensor::kAttentionOutput, Tensor::kOutputProduct,
    Tensor::kRouterProduct, Tensor::kCommunication,   Tensor::kFirstProduct,
    Tensor::kSecondProduct, Tensor::kDownProduct,     Tensor::kSharedProduct,
    Tensor::kSharedOutput};

std::vector<std::string> OperatorNames(const LayerTensors& kept) {
  std::vector<std::string> names;
  for (const Tensor t : kOperators) {
    if (kept[t] == 0) continue;
    names.push_back(t == Tensor::kAttentionOutput ? "core attention" : Name(t));
  }
  return names;
}

const LayerKind* LargestAttention(const Model& model) {
  for (const LayerKind& kind : model.stack.kinds) {
    if (!kind.attention.latent) return &kind;
  }
  return nullptr;
}

}  // namespace

bool SelectsByOperator(const MemorySoftware& s) {
  return !s.megatron_like && s.job().training.options.recompute_modules.empty();
}

SelectiveDrops DropsOf(const MemorySoftware& s, const LayerDims& d) {
  const Modules modules = ModulesOf(s);
  SelectiveDrops drops;
  DropAttention(modules, d, &drops);
  DropNorms(modules, d, &drops);
  DropFeedForward(modules, d, &drops);
  if (!s.megatron_like) drops.pins_qkv = false;
  return drops;
}

std::vector<std::string> SelectiveKeeps(const MemorySoftware& software,
                                        const KindTable::Entry& kind) {
  if (software.tower_frozen(kind.tower)) return {};
  MicroShape shape;
  shape.ep = software.job().model.has_experts() ? 2 : 1;  // so that communication shows
  const LayerDims dims = DimsOf(software, kind, shape);
  const LayerTensors kept = KeptTensors(software, dims, Recompute::kSelective);
  if (SelectsByOperator(software)) return OperatorNames(kept);
  std::vector<std::string> names;
  for (int i = 0; i < kTensors; ++i) {
    const Tensor tensor = static_cast<Tensor>(i);
    if (kept[tensor] != 0) names.push_back(Name(tensor));
  }
  return names;
}

OperatorSets SelectiveSets(const MemorySoftware& software, const KindTable::Entry& kind) {
  if (software.tower_frozen(kind.tower)) return {};
  if (!SelectsByOperator(software)) {
    return {{}, "modules are recomputed, of which other tensors stay than results of operators"};
  }
  if (!software.fused_attention) {
    return {{}, "attention that is not fused is no operator of its own"};
  }
  if (kind.kind->feed_forward.experts) {
    return {{},
            "the matmuls of experts differ by implementation, so that every second of them "
            "cannot be counted"};
  }
  return {{"attention", "every second matmul"}, ""};
}

std::string SelectiveNote(const MemorySoftware& software) {
  if (SelectsByOperator(software) || !software.fused_attention) return "";
  const std::vector<std::string>& stated = software.job().training.options.recompute_modules;
  const bool core_only =
      std::all_of(stated.begin(), stated.end(), [](const auto& m) { return m == "core_attn"; });
  if (!core_only) return "";
  const LayerKind* plain = LargestAttention(software.job().model);
  std::string note =
      "selective recomputes core attention only, and flash attention keeps no scores: it frees the "
      "softmax statistics and next to nothing";
  if (plain != nullptr && software.megatron_like) {
    note += "; the value, kept as a view, pins the fused query-key-value output, so memory grows";
  }
  return note;
}

}  // namespace restow::plan
