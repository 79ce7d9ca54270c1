// Text into Nodes: yaml-cpp's and nlohmann's event interfaces, which announce values as they come.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "io/limits.h"
#include "restow/io/document.h"

namespace restow {
namespace {

void NamePaths(Node& node, const std::string& path) {
  node.path = path;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    NamePaths(node.items[i], fmt::format("{}[{}]", path, i));
  }
  for (auto& [key, value] : node.members) {
    NamePaths(value, path.empty() ? key : path + "." + key);
  }
}

// Puts values into the tree as a parser announces them; holds the limits and refuses duplicates.
class TreeBuilder {
 public:
  void Open(NodeKind kind, SourcePosition where, std::size_t anchor = 0) {
    if (open_.size() >= kDeepestNesting) {
      ThrowBadInput(fmt::format("nested deeper than {} levels", kDeepestNesting), where);
    }
    Frame frame;
    frame.node.kind = kind;
    frame.node.where = std::move(where);
    frame.anchor = anchor;
    open_.push_back(std::move(frame));
  }

  void Close() {
    Frame frame = std::move(open_.back());
    open_.pop_back();
    Put(std::move(frame.node), frame.size, frame.anchor);
  }

  // In a map, scalars alternate between key and value.
  void Scalar(NodeKind kind, std::string text, bool quoted, SourcePosition where,
              std::size_t anchor = 0) {
    if (!open_.empty() && open_.back().node.is_map() && !open_.back().key) {
      Key(std::move(text), std::move(where));
      return;
    }
    Node node;
    node.kind = kind;
    node.text = std::move(text);
    node.quoted = quoted;
    node.where = std::move(where);
    Put(std::move(node), 1, anchor);
  }

  // A copy of what `anchor` named. Its nodes count again, which is what bounds a YAML bomb.
  void Alias(std::size_t anchor, const SourcePosition& where) {
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) {
      ThrowBadInput("an alias stands inside the value it names", where);
    }
    Node copy = found->second.first;
    copy.where = where;
    Put(std::move(copy), found->second.second, 0);
  }

  bool done() const { return done_; }

  Node Take() {
    NamePaths(root_, "");
    return std::move(root_);
  }

 private:
  struct Frame {
    Node node;
    std::optional<std::string> key;
    SourcePosition key_where;
    std::set<std::string> seen;
    std::size_t size = 1;
    std::size_t anchor = 0;
  };

  void Key(std::string key, SourcePosition where) {
    Frame& frame = open_.back();
    if (!frame.seen.insert(key).second) {
      ThrowBadInput(fmt::format("the key '{}' is given twice", key), where);
    }
    frame.key = std::move(key);
    frame.key_where = std::move(where);
  }

  void Put(Node node, std::size_t size, std::size_t anchor) {
    if (open_.empty() ? size > kMostNodes : (open_.back().size += size) > kMostNodes) {
      ThrowBadInput(fmt::format("more than {} values", kMostNodes), node.where);
    }
    if (anchor != 0) anchored_[anchor] = {node, size};
    if (open_.empty()) {
      root_ = std::move(node);
      done_ = true;
      return;
    }
    Frame& frame = open_.back();
    if (frame.node.is_list()) {
      frame.node.items.push_back(std::move(node));
      return;
    }
    if (!frame.key) ThrowBadInput("a map's key must be a plain word", node.where);
    frame.node.key_positions.push_back(frame.key_where);
    frame.node.members.emplace_back(std::move(*frame.key), std::move(node));
    frame.key.reset();
  }

  std::vector<Frame> open_;
  std::map<std::size_t, std::pair<Node, std::size_t>> anchored_;
  Node root_;
  bool done_ = false;
};

// ---- YAML ----------------------------------------------------------------------------------

class YamlEvents : public YAML::EventHandler {
 public:
  YamlEvents(TreeBuilder& tree, const std::string& file) : tree_(tree), file_(file) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    tree_.Scalar(NodeKind::kNull, "", false, At(mark), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    tree_.Alias(anchor, At(mark));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool quoted = tag == "!" || tag == "tag:yaml.org,2002:str" || tag == "!!str";
    const bool null = !quoted && (value == "~" || value == "null" || value == "Null" ||
                                  value == "NULL" || value.empty());
    tree_.Scalar(null ? NodeKind::kNull : NodeKind::kScalar, value, quoted, At(mark), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    tree_.Open(NodeKind::kList, At(mark), anchor);
  }
  void OnSequenceEnd() override { tree_.Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    tree_.Open(NodeKind::kMap, At(mark), anchor);
  }
  void OnMapEnd() override { tree_.Close(); }

 private:
  SourcePosition At(const YAML::Mark& mark) const {
    return {file_, mark.line + 1, mark.column + 1};
  }

  TreeBuilder& tree_;
  const std::string& file_;
};

Node ParseYaml(std::string_view text, const std::string& name) {
  std::istringstream stream{std::string(text)};
  TreeBuilder tree;
  YamlEvents events(tree, name);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(events) || !tree.done()) {
      ThrowBadInput("the file is empty", {name, 0, 0});
    }
    TreeBuilder rest;
    YamlEvents more(rest, name);
    if (parser.HandleNextDocument(more) && rest.done()) {
      ThrowBadInput("a second document starts here; one is read: remove the '---' between them",
                    rest.Take().where);
    }
  } catch (const YAML::Exception& fault) {
    ThrowBadInput("not readable as YAML: " + fault.msg,
                  {name, fault.mark.line + 1, fault.mark.column + 1});
  }
  return tree.Take();
}

// ---- JSON ----------------------------------------------------------------------------------

// Follows the text beside the parser, so that each value it announces has its place. The parser
// has already accepted the value, so a scan that only finds its end is enough.
class JsonCursor {
 public:
  JsonCursor(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  // Place of the next value or bracket; moves behind it. `token` is its text.
  SourcePosition Next(std::string_view* token) {
    while (at_ < text_.size() && IsBetween(text_[at_])) Step();
    const SourcePosition where{file_, line_, column_};
    const std::size_t start = at_;
    if (at_ < text_.size() && text_[at_] == '"') {
      Step();
      while (at_ < text_.size() && text_[at_] != '"') {
        if (text_[at_] == '\\') Step();
        Step();
      }
      Step();
    } else if (at_ < text_.size() && IsBracket(text_[at_])) {
      Step();
    } else {
      while (at_ < text_.size() && !IsBetween(text_[at_]) && !IsBracket(text_[at_])) Step();
    }
    if (token != nullptr) *token = text_.substr(start, at_ - start);
    return where;
  }

 private:
  static bool IsBetween(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',' || c == ':';
  }
  static bool IsBracket(char c) { return c == '{' || c == '}' || c == '[' || c == ']'; }

  void Step() {
    if (at_ >= text_.size()) return;
    if (text_[at_] == '\n') {
      ++line_;
      column_ = 0;
    }
    ++at_;
    ++column_;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1;
  int column_ = 1;
};

class JsonEvents {
 public:
  JsonEvents(TreeBuilder& tree, std::string_view text, const std::string& file)
      : tree_(tree), cursor_(text, file), text_(text), file_(file) {}

  bool null() {
    const SourcePosition where = cursor_.Next(nullptr);
    tree_.Scalar(NodeKind::kNull, "", false, where);
    return true;
  }
  bool boolean(bool) { return Plain(); }
  bool number_integer(std::int64_t) { return Plain(); }
  bool number_unsigned(std::uint64_t) { return Plain(); }
  bool number_float(double, const std::string&) { return Plain(); }
  bool string(const std::string& value) {
    const SourcePosition where = cursor_.Next(nullptr);
    tree_.Scalar(NodeKind::kScalar, value, true, where);
    return true;
  }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(std::size_t) { return Open(NodeKind::kMap); }
  bool start_array(std::size_t) { return Open(NodeKind::kList); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(const std::string& value) { return string(value); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& fault) {
    SourcePosition where{file_, 1, 1};
    for (std::size_t i = 0; i + 1 < position && i < text_.size(); ++i) {
      ++where.column;
      if (text_[i] == '\n') {
        ++where.line;
        where.column = 1;
      }
    }
    const std::string what = fault.what();
    const std::size_t reason = what.find("syntax error");
    ThrowBadInput(
        "not readable as JSON: " + (reason == std::string::npos ? what : what.substr(reason)),
        where);
  }

 private:
  bool Plain() {
    std::string_view token;
    const SourcePosition where = cursor_.Next(&token);
    tree_.Scalar(NodeKind::kScalar, std::string(token), false, where);
    return true;
  }
  bool Open(NodeKind kind) {
    tree_.Open(kind, cursor_.Next(nullptr));
    return true;
  }
  bool Close() {
    cursor_.Next(nullptr);
    tree_.Close();
    return true;
  }

  TreeBuilder& tree_;
  JsonCursor cursor_;
  std::string_view text_;
  const std::string& file_;
};

// Python writes NaN and Infinity, which are not JSON. The parser is shown zeros of the same length;
// the tree takes its texts from the original, so a use of such a value is still refused.
std::string WithoutNonFinite(std::string_view text) {
  std::string clean(text);
  bool inside = false;
  for (std::size_t i = 0; i < clean.size(); ++i) {
    if (clean[i] == '"') inside = !inside;
    if (inside) {
      if (clean[i] == '\\') ++i;
      continue;
    }
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
      if (clean.compare(i, word.size(), word) != 0) continue;
      clean.replace(i, word.size(), "0" + std::string(word.size() - 1, ' '));
      break;
    }
  }
  return clean;
}

Node ParseJson(std::string_view text, const std::string& name) {
  TreeBuilder tree;
  JsonEvents events(tree, text, name);
  nlohmann::json::sax_parse(WithoutNonFinite(text), &events);
  return tree.Take();
}

}  // namespace

Node ParseDocument(std::string_view text, Language language, const std::string& name) {
  if (text.size() > kLargestFile) {
    ThrowBadInput(fmt::format("the file is {} bytes; more than {} MiB is not read", text.size(),
                              kLargestFile >> 20),
                  {name, 0, 0});
  }
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  if (text.find('\0') != std::string_view::npos) {
    ThrowBadInput("the file is binary, not text", {name, 0, 0});
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    ThrowBadInput("the file is empty", {name, 0, 0});
  }
  return language == Language::kJson ? ParseJson(text, name) : ParseYaml(text, name);
}

}  // namespace restow
