// A parsed YAML or JSON file in which every value keeps its place and its text as written.
//
// One tree for both languages, so that each reader is written once. Limits hold against hostile
// files: 8 MiB, depth 64, 200,000 nodes after aliases are followed. Duplicate keys are refused.
// JSON may hold NaN and Infinity (Python writes them); they are numbers whose use is refused.
// Threads: a Document is immutable once read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "restow/base/error.h"

namespace restow {

enum class NodeKind { kNull, kScalar, kList, kMap };

// YAML 1.1 spellings of plain scalars are what users of both languages expect to be booleans:
// true/false, yes/no, on/off in any case, unquoted only.
class Node {
 public:
  Node();  // null; out of line, or clang looks into `members` before Node is complete

  NodeKind kind = NodeKind::kNull;
  std::string text;     // scalars: as written, without quotes
  bool quoted = false;  // scalars: stood in quotes (or a YAML block scalar)
  SourcePosition where;
  std::string path;         // "training.sequence"; list elements as "search.tp[2]"; "" for the root
  std::vector<Node> items;  // lists
  std::vector<std::pair<std::string, Node>> members;  // maps, in the order written
  std::vector<SourcePosition> key_positions;          // of `members`

  bool is_null() const { return kind == NodeKind::kNull; }
  bool is_scalar() const { return kind == NodeKind::kScalar; }
  bool is_list() const { return kind == NodeKind::kList; }
  bool is_map() const { return kind == NodeKind::kMap; }
  bool is_bool() const;     // unquoted boolean spelling
  bool is_integer() const;  // unquoted, fits 64 bits
  bool is_number() const;   // unquoted, finite or not

  // Null when absent. `Requires:` a map.
  const Node* Find(std::string_view key) const;

  // Conversions. Errors: kBadInput at this node's place, with the path, the text as written and
  // what is expected ("training.sequence is 'abc'; a whole number is expected").
  bool AsBool() const;
  std::int64_t AsInteger() const;       // refuses beyond 2^63
  int AsInt(int low, int high) const;   // within [low, high]
  double AsNumber() const;              // refuses NaN and infinities
  const std::string& AsString() const;  // any scalar
  const std::vector<Node>& AsList() const;
  void ExpectMap() const;
  // As the user wrote it, shortened, for messages: `"false"`, `[off, off]`, `{a: 1}`, `null`.
  std::string Written() const;
};

enum class Language { kYaml, kJson };

// `name` is what messages call the file. Errors: kBadInput with the position of the fault.
Node ParseDocument(std::string_view text, Language language, const std::string& name);

// Reads and parses; the language follows from the suffix (.json: JSON; else YAML, in which JSON is
// read too). "-" reads standard input. Errors: kBadInput for a missing, empty, binary or oversized
// file.
Node ReadDocument(const std::string& path);

// The bytes of a file (or standard input for "-"), with the limits above.
std::string ReadFileText(const std::string& path);

// Writes the whole file or nothing: a temporary beside it, then a rename. Errors: kBadInput naming
// the file when it cannot be written (kInternal never).
void WriteFileText(const std::string& path, std::string_view text);

}  // namespace restow
