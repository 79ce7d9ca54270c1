// The recompute dimension as users state it. docs/planner.md, "Recompute as a dimension".
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "io/fields.h"
#include "restow/base/error.h"
#include "restow/base/text.h"
#include "restow/io/read.h"

namespace restow {
namespace {

constexpr const char* kDimensionAllowed =
    "allowed: a mode (off, selective, full), a list of them, or auto";
constexpr const char* kSingleAllowed = "allowed: one mode (off, selective or full)";

// A mode by name, or by YAML's, JSON's or Python's bare false; nothing else.
std::optional<Recompute> ModeOf(const Node& node) {
  if (!node.is_scalar()) return std::nullopt;
  if (node.is_bool()) return node.AsBool() ? std::nullopt : std::optional(Recompute::kOff);
  const std::string word = WordOf(node);
  if (word == "none") return Recompute::kOff;
  for (int i = 0; i < kRecomputeModes; ++i) {
    const auto mode = static_cast<Recompute>(i);
    if (word == Name(mode)) return mode;
  }
  return std::nullopt;
}

// `place` is the statement's name, with the index of a list's element.
[[noreturn]] void Refuse(const Node& node, const std::string& place, const std::string& allowed) {
  const std::vector<std::string> modes = WordsOf<Recompute>(kRecomputeModes);
  const std::string nearest = ModeOf(node) ? "" : NearestWord(WordOf(node), modes);
  // A two-letter word like "on" is near "off" without meaning it.
  const bool typo = !nearest.empty() && node.is_scalar() && !node.is_bool() && !node.is_number() &&
                    WordOf(node).size() > 2 && WordOf(node) != "auto";
  ThrowBadInput(fmt::format("{} is {}; {}{}", place, node.Written(), allowed,
                            typo ? fmt::format("; did you mean '{}'?", nearest) : ""),
                node.where);
}

Node Bare(std::string_view text) {
  Node node;
  node.kind = NodeKind::kScalar;
  node.text = Trim(text);
  const char quote = node.text.empty() ? '\0' : node.text.front();
  if (node.text.size() >= 2 && (quote == '"' || quote == '\'') && node.text.back() == quote) {
    node.text = node.text.substr(1, node.text.size() - 2);
    node.quoted = true;
  }
  if (node.text.empty()) node.quoted = true;
  return node;
}

// An argument's text as the node a file would have held.
Node FromArgument(std::string_view argument) {
  std::string_view text = Trim(argument);
  const bool bracketed = text.size() >= 2 && text.front() == '[' && text.back() == ']';
  if (bracketed) text = Trim(text.substr(1, text.size() - 2));
  if (!bracketed && text.find(',') == std::string_view::npos) return Bare(text);
  Node list;
  list.kind = NodeKind::kList;
  while (!(bracketed && text.empty() && list.items.empty())) {
    const std::size_t comma = text.find(',');
    list.items.push_back(Bare(text.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return list;
}

}  // namespace

Dimension<Recompute> ReadRecomputeDimension(const Node& node, const std::string& what) {
  Dimension<Recompute> dimension;
  if (node.is_null()) return dimension;
  dimension.stated = true;
  dimension.where = node.where;
  if (node.is_map()) Refuse(node, what, kDimensionAllowed);
  std::vector<Node> elements = Elements(node);
  if (elements.empty()) Refuse(node, what, kDimensionAllowed);
  // "false, full" in quotes holds no bare false.
  for (Node& element : elements)
    element.quoted = element.quoted || (node.is_scalar() && node.quoted);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (IsAuto(elements[i])) {
      if (elements.size() > 1) {
        Refuse(node, what, std::string("auto stands alone; ") + kDimensionAllowed);
      }
      dimension.automatic = true;
      dimension.values = {Recompute::kOff, Recompute::kSelective, Recompute::kFull};
      return dimension;
    }
    const std::optional<Recompute> mode = ModeOf(elements[i]);
    if (!mode) {
      const bool inside = node.is_list() || elements.size() > 1;
      Refuse(elements[i], inside ? fmt::format("{}[{}]", what, i) : what, kDimensionAllowed);
    }
    const auto end = dimension.values.end();
    if (std::find(dimension.values.begin(), end, *mode) == end) dimension.values.push_back(*mode);
  }
  return dimension;
}

Dimension<Recompute> ReadRecomputeDimension(std::string_view argument, const std::string& what) {
  return ReadRecomputeDimension(FromArgument(argument), what);
}

Recompute ReadSingleRecompute(const Node* node, const std::string& what) {
  if (node == nullptr || node->is_null()) return Recompute::kOff;
  const std::optional<Recompute> mode = ModeOf(*node);
  if (!mode) Refuse(*node, what, kSingleAllowed);
  return *mode;
}

}  // namespace restow
