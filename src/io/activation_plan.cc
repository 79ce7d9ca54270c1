// `restow.activation-plan/1` from its text, and which modules of a model it speaks of.
#include "restow/schema/activation_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "io/fields.h"
#include "restow/base/text.h"
#include "restow/io/read.h"

namespace restow {
namespace {

constexpr const char* kSchema = "restow.activation-plan/1";
constexpr const char* kRemedy = "make the plan anew with 'restow export JOB --to restow'";
constexpr int kModes = 5;
constexpr int kMostStages = 1 << 20;
constexpr std::size_t kNamesShown = 3;

const Node& Need(Members& members, std::string_view key) { return members.Need(key, kRemedy); }

Bytes ReadByteCount(const Node& node) {
  const std::int64_t bytes = node.AsInteger();
  if (bytes < 0) RefuseValue(node, "a number of bytes, 0 or more, is expected");
  return Bytes(bytes);
}

Seconds ReadSecondCount(const Node& node) {
  const double seconds = node.AsNumber();
  if (seconds < 0) RefuseValue(node, "a number of seconds, 0 or more, is expected");
  return Seconds(seconds);
}

ActivationMode ReadMode(const Node& node) {
  return static_cast<ActivationMode>(ReadWord(node, WordsOf<ActivationMode>(kModes)));
}

std::vector<std::string> ReadOperators(const Node& node) {
  node.AsList();
  return ReadTexts(node);
}

void ReadPredicted(const Node& node, ActivationRegion* region) {
  Members members(node);
  region->predicted_kept = ReadByteCount(Need(members, "kept_bytes"));
  region->predicted_swapped = ReadByteCount(Need(members, "swapped_bytes"));
  region->predicted_recompute = ReadSecondCount(Need(members, "recompute_s"));
  members.RefuseRest();
}

ActivationRegion ReadRegion(const Node& node) {
  Members members(node);
  ActivationRegion region;
  const Node& module = Need(members, "module");
  region.module = Trim(module.AsString());
  if (region.module.empty()) RefuseValue(module, "a module's name or a pattern is expected");
  region.mode = ReadMode(Need(members, "mode"));
  region.save = ReadOperators(Need(members, "save"));
  region.recompute = ReadOperators(Need(members, "recompute"));
  region.swap = ReadOperators(Need(members, "swap"));
  region.min_bytes = ReadByteCount(Need(members, "min_bytes"));
  const std::vector<std::string> tiers = {"host", "file"};
  region.tier = tiers[ReadWord(Need(members, "tier"), tiers)];
  ReadPredicted(Need(members, "predicted"), &region);
  members.RefuseRest();
  return region;
}

void ReadSwap(const Node& node, ActivationPlan* plan) {
  Members members(node);
  plan->host_bytes_cap = ReadByteCount(Need(members, "host_bytes_cap"));
  plan->window_bytes = ReadByteCount(Need(members, "window_bytes"));
  plan->keep_last_region = Need(members, "keep_last_region").AsBool();
  members.RefuseRest();
}

void ReadStage(Members& members, ActivationPlan* plan) {
  plan->stages = Need(members, "stages").AsInt(1, kMostStages);
  const Node& stage = Need(members, "stage");
  plan->stage = stage.AsInt(0, kMostStages);
  if (plan->stage >= plan->stages) {
    RefuseValue(stage, fmt::format("of {} stages the last is {}", plan->stages, plan->stages - 1));
  }
}

// Texts by the one key of a map: `job.digest`, `defaults.mode`.
const Node& Only(Members& members, std::string_view map, std::string_view key) {
  Members inner(Need(members, map));
  const Node& value = Need(inner, key);
  inner.RefuseRest();
  return value;
}

// How much of a pattern a name repeats at its beginning and at its end, less, among equals, for
// names of another length.
std::pair<std::size_t, std::size_t> Likeness(std::string_view pattern, std::string_view name) {
  const std::size_t shorter = std::min(pattern.size(), name.size());
  const std::size_t longer = std::max(pattern.size(), name.size());
  std::size_t head = 0, tail = 0;
  while (head < shorter && pattern[head] == name[head]) ++head;
  while (head + tail < shorter &&
         pattern[pattern.size() - 1 - tail] == name[name.size() - 1 - tail]) {
    ++tail;
  }
  return {head + tail, std::string::npos - (longer - shorter)};
}

[[noreturn]] void RefusePattern(const std::string& pattern, const std::vector<std::string>& names) {
  std::vector<std::pair<std::pair<std::size_t, std::size_t>, std::string>> near;
  for (const std::string& name : names) near.emplace_back(Likeness(pattern, name), name);
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (near.empty()) {
    ThrowBadInput(
        fmt::format("the plan's pattern '{}' matches nothing: the model has no modules", pattern));
  }
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(near.size(), kNamesShown); ++i) {
    shown.push_back("'" + near[i].second + "'");
  }
  ThrowBadInput(
      fmt::format("the plan's pattern '{}' matches no module of the model, which has {}; "
                  "'restow export --modules' states how the model names its layers",
                  pattern, JoinWords(shown)));
}

bool Moves(const ActivationPlan& plan, int region) {
  return plan.regions[static_cast<std::size_t>(region)].mode != ActivationMode::kKeep;
}

// Modules under a mode other than keep may not lie inside one another.
void CheckNesting(const ActivationPlan& plan, const std::vector<ModuleMatch>& matches) {
  std::map<std::string, int> moved;
  for (const ModuleMatch& match : matches) {
    if (Moves(plan, match.region)) moved.emplace(match.module, match.region);
  }
  const auto describe = [&](const auto& of) {
    const ActivationRegion& region = plan.regions[static_cast<std::size_t>(of.second)];
    return fmt::format("'{}' ({}, by '{}')", of.first, Name(region.mode), region.module);
  };
  for (const auto& inner : moved) {
    for (std::size_t dot = inner.first.find('.'); dot != std::string::npos;
         dot = inner.first.find('.', dot + 1)) {
      const auto outer = moved.find(inner.first.substr(0, dot));
      if (outer == moved.end()) continue;
      ThrowBadInput(
          fmt::format("the plan matches {} and, inside it, {}; let only one of them be "
                      "other than keep",
                      describe(*outer), describe(inner)));
    }
  }
}

}  // namespace

ActivationPlan ReadActivationPlan(const std::string& text, const std::string& name) {
  const Node document = ParseDocument(text, Language::kJson, name);
  Members members(document);
  const Node& schema = Need(members, "schema");
  if (schema.AsString() != kSchema) {
    RefuseValue(schema, fmt::format("this version reads {}; {}", kSchema, kRemedy));
  }
  ActivationPlan plan;
  plan.version = Need(members, "version").AsString();
  plan.job_digest = Only(members, "job", "digest").AsString();
  plan.framework = Need(members, "framework").AsString();
  ReadStage(members, &plan);
  plan.default_mode = ReadMode(Only(members, "defaults", "mode"));
  for (const Node& region : Need(members, "regions").AsList()) {
    plan.regions.push_back(ReadRegion(region));
  }
  ReadSwap(Need(members, "swap"), &plan);
  members.RefuseRest();
  return plan;
}

std::vector<ModuleMatch> MatchModules(const ActivationPlan& plan,
                                      const std::vector<std::string>& module_names) {
  std::vector<ModuleMatch> matches;
  std::vector<bool> matched(plan.regions.size());
  for (const std::string& module : module_names) {
    int first = -1;
    for (std::size_t i = 0; i < plan.regions.size(); ++i) {
      if (!GlobMatches(plan.regions[i].module, module)) continue;
      matched[i] = true;
      if (first < 0) first = static_cast<int>(i);
    }
    if (first >= 0) matches.push_back({module, first});
  }
  for (std::size_t i = 0; i < plan.regions.size(); ++i) {
    if (!matched[i]) RefusePattern(plan.regions[i].module, module_names);
  }
  CheckNesting(plan, matches);
  return matches;
}

}  // namespace restow
