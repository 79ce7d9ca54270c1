#include "plan/frozen.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "restow/base/text.h"

namespace restow::plan {
namespace {

constexpr std::array<std::string_view, 2> kIgnoredPrefixes = {"model.", "language_model."};

std::string_view WithoutPrefixes(std::string_view glob) {
  bool stripped = true;
  while (stripped) {
    stripped = false;
    for (const std::string_view prefix : kIgnoredPrefixes) {
      if (glob.size() <= prefix.size() || glob.substr(0, prefix.size()) != prefix) continue;
      glob.remove_prefix(prefix.size());
      stripped = true;
    }
  }
  return glob;
}

// Matches the module or any module it lies in.
bool Covers(std::string_view glob, std::string_view module) {
  for (std::size_t end = module.find('.');; end = module.find('.', end + 1)) {
    if (GlobMatches(glob, module.substr(0, end))) return true;
    if (end == std::string_view::npos) return false;
  }
}

// Other spellings of the same module.
std::string Respelled(std::string_view module) {
  if (module == "projector") return "multi_modal_projector";
  std::string text(module);
  const std::size_t at = text.find(".layers");
  if (at != std::string::npos) text.replace(at, 7, ".blocks");
  return text;
}

// The language model's own modules have its name in front in multimodal models.
bool IsLanguageModule(std::string_view module) {
  for (const std::string_view own : {"embed_tokens", "layers", "norm", "lm_head", "mtp"}) {
    if (module.substr(0, module.find('.')) == own) return true;
  }
  return false;
}

bool AnyCovers(std::string_view glob, std::string_view module) {
  if (glob == "model" || (glob == "language_model" && IsLanguageModule(module))) return true;
  return Covers(glob, module) || Covers(glob, Respelled(module));
}

void AppendLayers(const Model& model, int tower, int layers, std::vector<std::string>* modules) {
  for (int i = 0; i < layers; ++i) {
    const std::string layer = LayerModule(model, tower, i);
    for (const char* part : {".self_attn", ".mlp", ".mlp.experts", ".norms"})
      modules->push_back(layer + part);
  }
}

std::vector<std::string> AllModules(const Model& model) {
  std::vector<std::string> modules = {"embed_tokens", "norm", "lm_head", "mtp", "projector"};
  AppendLayers(model, -1, model.stack.layers(), &modules);
  for (std::size_t t = 0; t < model.towers.size(); ++t) {
    modules.push_back(model.towers[t].name + ".embeddings");
    AppendLayers(model, static_cast<int>(t), model.towers[t].stack.layers(), &modules);
  }
  return modules;
}

void CheckGlobs(const Job& job) {
  if (job.training.frozen.empty()) return;
  const std::vector<std::string> modules = AllModules(job.model);
  const bool all = std::all_of(modules.begin(), modules.end(), [&](const std::string& module) {
    return IsFrozen(job.training, module);
  });
  if (all && !job.training.lora) {
    ThrowBadInput("everything is frozen: nothing is trained; leave a module out of training.frozen",
                  job.At("training.frozen"));
  }
  for (const std::string& glob : job.training.frozen) {
    const std::string_view bare = WithoutPrefixes(glob);
    const bool named = std::any_of(modules.begin(), modules.end(), [&](const std::string& module) {
      return AnyCovers(bare, module);
    });
    if (named) continue;
    ThrowBadInput(
        fmt::format("'{}' freezes nothing: modules are embed_tokens, layers.N, layers.N.self_attn, "
                    "layers.N.mlp, norm, lm_head, mtp, projector and towers by name",
                    glob),
        job.At("training.frozen"));
  }
}

constexpr std::array<std::string_view, 11> kTargets = {
    "q_proj",   "k_proj",    "v_proj",   "o_proj",   "gate_proj",
    "up_proj",  "down_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa",
    "kv_b_proj"};

void CheckTargets(const Job& job) {
  if (!job.training.lora) return;
  for (const std::string& target : job.training.lora->targets) {
    if (std::find(kTargets.begin(), kTargets.end(), target) != kTargets.end()) continue;
    const std::vector<std::string> known(kTargets.begin(), kTargets.end());
    ThrowBadInput(
        fmt::format("'{}' is no product LoRA can adapt; targets are {}", target, JoinWords(known)),
        job.At("training.lora.targets"));
  }
}

}  // namespace

bool IsFrozen(const Training& training, std::string_view module) {
  if (training.lora) return true;
  return std::any_of(training.frozen.begin(), training.frozen.end(), [&](const std::string& glob) {
    return AnyCovers(WithoutPrefixes(glob), module);
  });
}

std::string LayerModule(const Model& model, int tower, int layer) {
  if (tower < 0) return fmt::format("layers.{}", layer);
  return fmt::format("{}.layers.{}", model.towers[static_cast<std::size_t>(tower)].name, layer);
}

bool IsTowerFrozen(const Job& job, int tower) {
  if (job.training.lora) return true;
  if (job.training.frozen.empty()) return false;
  const Tower& part = job.model.towers[static_cast<std::size_t>(tower)];
  if (part.other_parameters > 0 && !IsFrozen(job.training, part.name + ".embeddings")) return false;
  for (int i = 0; i < part.stack.layers(); ++i) {
    const std::string layer = LayerModule(job.model, tower, i);
    if (!IsFrozen(job.training, layer + ".self_attn")) return false;
    if (!IsFrozen(job.training, layer + ".mlp")) return false;
  }
  return true;
}

void CheckFrozen(const Job& job) {
  CheckGlobs(job);
  CheckTargets(job);
}

bool HasAdapter(const Training& training, std::string_view target) {
  if (!training.lora) return false;
  const std::vector<std::string>& targets = training.lora->targets;
  return std::find(targets.begin(), targets.end(), target) != targets.end();
}

}  // namespace restow::plan
