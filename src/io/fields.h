// Reading values out of a document with messages that name the place, the value and what is
// allowed. Shared by every reader of job-like files.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "restow/base/quantity.h"
#include "restow/io/document.h"
#include "restow/schema/cluster.h"

namespace restow {

// The members of one map, asked for by name; what nobody asked for is found at the end.
class Members {
 public:
  // Errors: kBadInput when `map` is no map. Keeps a reference to it.
  explicit Members(const Node& map);

  const Node& map() const { return map_; }
  // Null when absent or null.
  const Node* Take(std::string_view key);
  // Errors: kBadInput saying that the key is missing, with `hint` behind it.
  const Node& Need(std::string_view key, std::string_view hint);
  // Errors: kBadInput for the first key nobody asked for, with the nearest and all that are.
  void RefuseRest() const;

 private:
  const Node& map_;
  std::vector<std::string> asked_;
};

// "training.sequence is 'abc'; EXPECTED": kBadInput at the node's place.
[[noreturn]] void RefuseValue(const Node& node, const std::string& expected);

// Quantities above zero unless said; errors as the unit parsers', with path and place in front.
Bytes ReadSize(const Node& node);
Bytes ReadSizeOrZero(const Node& node);
Seconds ReadTime(const Node& node);
BytesPerSecond ReadBandwidth(const Node& node);
FlopsPerSecond ReadRate(const Node& node);
// A whole number from 1 to `high`.
int ReadCount(const Node& node, int high = 1 << 30);
// true, false, and 1 and 0 as the `switches` of measured runs write them.
bool ReadSwitch(const Node& node);
// A list of texts, or one text alone.
std::vector<std::string> ReadTexts(const Node& node);

// A list's items, or a scalar divided at its commas ("2,4" is two values, unquoted).
std::vector<Node> Elements(const Node& node);
// True for the word `auto` in any case.
bool IsAuto(const Node& node);
// Trimmed, lower case; "" for what is no scalar.
std::string WordOf(const Node& node);

// The index of the node's word in `words`. Errors: kBadInput with the nearest and all of them;
// kUnsupported for a word in `later`.
std::size_t ReadWord(const Node& node, const std::vector<std::string>& words,
                     const std::vector<std::string>& later = {});

// The words of an enumeration whose values run from 0 to `count` - 1.
template <class E>
std::vector<std::string> WordsOf(int count) {
  std::vector<std::string> words;
  for (int i = 0; i < count; ++i) words.emplace_back(Name(static_cast<E>(i)));
  return words;
}

inline constexpr int kDTypes = 5;

// `path` as seen from `folder`, the folder of the file that states it.
std::string ResolvePath(const std::string& path, const std::string& folder);
// "configs/llama" of "configs/llama/config.json"; "." for a bare file name.
std::string FolderOf(const std::string& path);
// "config" of "configs/config.json".
std::string StemOf(const std::string& path);

// What a document says, without comments and layout: the same text for the same values.
std::string Canonical(const Node& node);

}  // namespace restow
