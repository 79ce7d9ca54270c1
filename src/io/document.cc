#include "restow/io/document.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "restow/base/text.h"

namespace restow {
namespace {

constexpr std::size_t kWrittenLimit = 60;

std::optional<bool> BooleanSpelling(const Node& node) {
  if (!node.is_scalar() || node.quoted) return std::nullopt;
  const std::string word = Lower(node.text);
  if (word == "true" || word == "yes" || word == "on") return true;
  if (word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
}

template <class T>
std::optional<T> Parse(const Node& node) {
  if (!node.is_scalar() || node.quoted) return std::nullopt;
  std::string_view text = node.text;
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  T value{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

// Whether the text is digits only, so that a failed parse means "too large".
bool IsDigits(std::string_view text) {
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  if (text.empty()) return false;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
  }
  return true;
}

[[noreturn]] void Refuse(const Node& node, const std::string& expected) {
  const std::string name = node.path.empty() ? "the document" : node.path;
  ThrowBadInput(fmt::format("{} is {}; {}", name, node.Written(), expected), node.where);
}

std::string WrittenWhole(const Node& node) {
  switch (node.kind) {
    case NodeKind::kNull:
      return "null";
    case NodeKind::kScalar:
      return node.quoted ? "\"" + node.text + "\"" : node.text;
    case NodeKind::kList: {
      std::string text = "[";
      for (const Node& item : node.items) {
        if (text.size() > kWrittenLimit) break;
        if (text.size() > 1) text += ", ";
        text += WrittenWhole(item);
      }
      return text + "]";
    }
    case NodeKind::kMap: {
      std::string text = "{";
      for (const auto& [key, value] : node.members) {
        if (text.size() > kWrittenLimit) break;
        if (text.size() > 1) text += ", ";
        text += key + ": " + WrittenWhole(value);
      }
      return text + "}";
    }
  }
  return "";
}

}  // namespace

Node::Node() = default;

bool Node::is_bool() const { return BooleanSpelling(*this).has_value(); }
bool Node::is_integer() const { return Parse<std::int64_t>(*this).has_value(); }

bool Node::is_number() const {
  if (Parse<double>(*this)) return true;
  if (!is_scalar() || quoted) return false;
  const std::string word = Lower(text);
  return word == ".nan" || word == ".inf" || word == "-.inf" || word == "+.inf";
}

const Node* Node::Find(std::string_view key) const {
  for (const auto& [name, value] : members) {
    if (name == key) return &value;
  }
  return nullptr;
}

bool Node::AsBool() const {
  const std::optional<bool> value = BooleanSpelling(*this);
  if (!value) Refuse(*this, "true or false is expected");
  return *value;
}

std::int64_t Node::AsInteger() const {
  if (const auto value = Parse<std::int64_t>(*this)) return *value;
  if (is_scalar() && !quoted && IsDigits(text)) Refuse(*this, "a number below 2^63 is expected");
  Refuse(*this, "a whole number is expected");
}

int Node::AsInt(int low, int high) const {
  const std::int64_t value = AsInteger();
  if (value < low || value > high) {
    Refuse(*this, fmt::format("a whole number from {} to {} is expected", low, high));
  }
  return static_cast<int>(value);
}

double Node::AsNumber() const {
  const auto value = Parse<double>(*this);
  if (!value || !std::isfinite(*value)) Refuse(*this, "a finite number is expected");
  return *value;
}

const std::string& Node::AsString() const {
  if (!is_scalar()) Refuse(*this, "a text is expected");
  return text;
}

const std::vector<Node>& Node::AsList() const {
  if (!is_list()) Refuse(*this, "a list is expected");
  return items;
}

void Node::ExpectMap() const {
  if (!is_map()) Refuse(*this, "a map (keys with values) is expected");
}

std::string Node::Written() const {
  const std::string whole = WrittenWhole(*this);
  return whole.size() > kWrittenLimit ? whole.substr(0, kWrittenLimit) + "..." : whole;
}

}  // namespace restow
