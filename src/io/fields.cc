#include "io/fields.h"

#include <fmt/format.h>

#include "restow/base/error.h"
#include "restow/base/text.h"
#include "restow/base/units.h"

namespace restow {
namespace {

std::string NameOf(const Node& node) { return node.path.empty() ? "the document" : node.path; }

// Runs a unit parser on the node's text and puts the place in front of its complaint.
template <class Parse>
auto Convert(const Node& node, const char* example, Parse parse) {
  if (!node.is_scalar()) RefuseValue(node, fmt::format("a text like '{}' is expected", example));
  try {
    return parse(node.text);
  } catch (const Error& error) {
    ThrowBadInput(NameOf(node) + ": " + error.message(), node.where);
  }
}

template <class Parse>
auto ConvertPositive(const Node& node, const char* example, Parse parse) {
  const auto value = Convert(node, example, parse);
  if (!(value.value() > 0)) RefuseValue(node, "a value above zero is expected");
  return value;
}

}  // namespace

Members::Members(const Node& map) : map_(map) { map.ExpectMap(); }

const Node* Members::Take(std::string_view key) {
  asked_.emplace_back(key);
  const Node* found = map_.Find(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

const Node& Members::Need(std::string_view key, std::string_view hint) {
  const Node* found = Take(key);
  if (found != nullptr) return *found;
  const std::string path =
      map_.path.empty() ? std::string(key) : fmt::format("{}.{}", map_.path, key);
  ThrowBadInput(fmt::format("{} is missing; {}", path, hint), map_.where);
}

void Members::RefuseRest() const {
  for (std::size_t i = 0; i < map_.members.size(); ++i) {
    const std::string& key = map_.members[i].first;
    bool known = false;
    for (const std::string& asked : asked_) known = known || asked == key;
    if (known) continue;
    const std::string place = map_.path.empty() ? "" : " in " + map_.path;
    ThrowBadInput(
        fmt::format("unknown key '{}'{}{}{} allowed: {}", key, place, DidYouMean(key, asked_),
                    NearestWord(key, asked_).empty() ? ";" : "", JoinWords(asked_)),
        map_.key_positions[i]);
  }
}

void RefuseValue(const Node& node, const std::string& expected) {
  ThrowBadInput(fmt::format("{} is {}; {}", NameOf(node), node.Written(), expected), node.where);
}

Bytes ReadSize(const Node& node) { return ConvertPositive(node, "80 GB", ParseBytes); }
Bytes ReadSizeOrZero(const Node& node) { return Convert(node, "2GiB", ParseBytes); }
Seconds ReadTime(const Node& node) { return Convert(node, "3 us", ParseSeconds); }
BytesPerSecond ReadBandwidth(const Node& node) {
  return ConvertPositive(node, "450 GB/s", ParseBytesPerSecond);
}
FlopsPerSecond ReadRate(const Node& node) {
  return ConvertPositive(node, "989 TFLOPS", ParseFlopsPerSecond);
}

int ReadCount(const Node& node, int high) { return node.AsInt(1, high); }

bool ReadSwitch(const Node& node) {
  if (node.is_scalar() && (node.text == "1" || node.text == "0")) return node.text == "1";
  return node.AsBool();
}

std::vector<std::string> ReadTexts(const Node& node) {
  std::vector<std::string> texts;
  if (node.is_scalar()) return {node.text};
  for (const Node& item : node.AsList()) {
    if (Trim(item.AsString()).empty()) RefuseValue(item, "a text is expected");
    texts.emplace_back(Trim(item.text));
  }
  return texts;
}

std::vector<Node> Elements(const Node& node) {
  if (node.is_list()) return node.items;
  if (!node.is_scalar() || node.text.find(',') == std::string::npos) return {node};
  std::vector<Node> parts;
  std::string_view rest = node.text;
  while (true) {
    const std::size_t comma = rest.find(',');
    Node part = node;
    part.text = Trim(rest.substr(0, comma));
    // What stood between quotes was the list; its elements are plain words.
    part.quoted = part.text.empty();
    parts.push_back(std::move(part));
    if (comma == std::string_view::npos) return parts;
    rest.remove_prefix(comma + 1);
  }
}

std::string WordOf(const Node& node) { return node.is_scalar() ? Lower(Trim(node.text)) : ""; }

bool IsAuto(const Node& node) { return WordOf(node) == "auto"; }

std::size_t ReadWord(const Node& node, const std::vector<std::string>& words,
                     const std::vector<std::string>& later) {
  const std::string word = WordOf(node);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == word) return i;
  }
  const std::string allowed = JoinWords(words, "or");
  for (const std::string& known : later) {
    if (known != word) continue;
    ThrowUnsupported(fmt::format("{} is {}, which is not available in this version; allowed: {}",
                                 NameOf(node), node.Written(), allowed),
                     node.where);
  }
  std::vector<std::string> all = words;
  all.insert(all.end(), later.begin(), later.end());
  RefuseValue(node, fmt::format("allowed: {}{}", allowed, DidYouMean(word, all)));
}

std::string ResolvePath(const std::string& path, const std::string& folder) {
  if (path.empty() || path.front() == '/' || folder.empty() || folder == ".") return path;
  return folder + "/" + path;
}

std::string FolderOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string StemOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  const std::size_t dot = file.rfind('.');
  return dot == std::string::npos || dot == 0 ? file : file.substr(0, dot);
}

std::string Canonical(const Node& node) {
  std::string text;
  switch (node.kind) {
    case NodeKind::kNull:
      return "~";
    case NodeKind::kScalar:
      // Lengths in front keep texts with brackets and commas apart from structure.
      return fmt::format("{}{}:{}", node.quoted ? "q" : "s", node.text.size(), node.text);
    case NodeKind::kList:
      for (const Node& item : node.items) text += Canonical(item) + ",";
      return "[" + text + "]";
    case NodeKind::kMap:
      for (const auto& [key, value] : node.members) {
        text += fmt::format("{}:{}={},", key.size(), key, Canonical(value));
      }
      return "{" + text + "}";
  }
  return text;
}

}  // namespace restow
