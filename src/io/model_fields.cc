#include "io/model_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "restow/base/text.h"

namespace restow {
namespace {

const Node* Stated(const Node& map, std::string_view name) {
  const Node* value = map.Find(name);
  return value != nullptr && !value->is_null() ? value : nullptr;
}

// Two names of one thing must agree, or one of them is a mistake.
void RequireSame(const Node& first, const Node& second) {
  if (!first.is_scalar() || !second.is_scalar() || first.text == second.text) return;
  ThrowBadInput(
      fmt::format("{} is {} but {} is {}; they are names of the same thing and must agree",
                  second.path, second.Written(), first.path, first.Written()),
      second.where);
}

}  // namespace

std::string FieldPath(const Node& map, std::string_view name) {
  return map.path.empty() ? std::string(name) : fmt::format("{}.{}", map.path, name);
}

Fields::Fields(const Node& map, Model& model) : node_(&map), model_(&model) { map.ExpectMap(); }

const Node* Fields::Take(FieldNames names) {
  const Node* found = nullptr;
  for (const std::string_view name : names) {
    taken_.emplace(name);
    const Node* value = Stated(*node_, name);
    if (value == nullptr) continue;
    if (found == nullptr) {
      found = value;
    } else {
      RequireSame(*found, *value);
    }
  }
  if (found != nullptr || outer_ == nullptr) return found;
  const bool inherits = std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    return std::find(inherited_.begin(), inherited_.end(), name) != inherited_.end();
  });
  return inherits ? outer_->Take(names) : nullptr;
}

const Node* Fields::Peek(FieldNames names) const {
  for (const std::string_view name : names) {
    if (const Node* value = Stated(*node_, name)) return value;
  }
  return nullptr;
}

int Fields::Size(FieldNames names, int most) {
  if (const Node* value = Take(names)) return value->AsInt(1, most);
  const DefaultSize* known = Default(names);
  if (known == nullptr) Missing(names, "a whole number is expected");
  return known->value;
}

std::optional<int> Fields::SizeIfStated(FieldNames names, int most) {
  if (const Node* value = Take(names)) return value->AsInt(1, most);
  if (const DefaultSize* known = Default(names)) return known->value;
  return std::nullopt;
}

int Fields::SizeOr(FieldNames names, int fallback, int most) {
  return SizeIfStated(names, most).value_or(fallback);
}

int Fields::CountOr(FieldNames names, int fallback, int most) {
  if (const Node* value = Take(names)) return value->AsInt(0, most);
  const DefaultSize* known = Default(names);
  return known != nullptr ? known->value : fallback;
}

bool Fields::FlagOr(FieldNames names, bool fallback) {
  const Node* value = Take(names);
  return value != nullptr ? value->AsBool() : fallback;
}

std::string Fields::TextOr(FieldNames names, const std::string& fallback) {
  const Node* value = Take(names);
  return value != nullptr ? value->AsString() : fallback;
}

void Fields::Assume(std::span<const DefaultSize> defaults, std::string_view source) {
  defaults_ = defaults;
  defaults_source_ = source;
}

void Fields::Inherit(Fields& outer, std::string_view name) {
  outer_ = &outer;
  inherited_.push_back(name);
}

const DefaultSize* Fields::Default(FieldNames names) const {
  for (const std::string_view name : names) {
    for (const DefaultSize& known : defaults_) {
      if (known.name != name) continue;
      model_->assumed.push_back(
          {FieldPath(*node_, name),
           fmt::format("not stated; {} is the default of {}", known.value, defaults_source_)});
      return &known;
    }
  }
  return nullptr;
}

void Fields::Missing(FieldNames names, std::string_view expected) const {
  std::vector<std::string> paths;
  for (const std::string_view name : names) paths.push_back(FieldPath(*node_, name));
  ThrowBadInput(fmt::format("{} is missing; {}", JoinWords(paths, "or"), expected), node_->where);
}

std::vector<const std::pair<std::string, Node>*> Fields::Untaken() const {
  std::vector<const std::pair<std::string, Node>*> rest;
  for (const auto& member : node_->members) {
    if (!taken_.contains(member.first)) rest.push_back(&member);
  }
  return rest;
}

}  // namespace restow
