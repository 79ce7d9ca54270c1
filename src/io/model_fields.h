// Fields of one map in a configuration: taken by name, checked where they stand, and what nobody
// took can be listed afterwards.
//
// Readers ask for a value under all the names it goes by; absent and null are the same.
#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "restow/io/document.h"
#include "restow/schema/model.h"

namespace restow {

using FieldNames = std::initializer_list<std::string_view>;

// Bounds far above any model; they keep every product below inside 63 bits.
inline constexpr int kMostLayers = 10000;
inline constexpr int kWidest = 1 << 24;  // hidden size, feed-forward width, vocabulary
inline constexpr int kMostHeads = 1 << 16;
inline constexpr int kMostExperts = 1 << 16;
inline constexpr int kLongest = 1 << 30;  // tokens

// What a family's configuration class supplies where a file leaves a size out.
struct DefaultSize {
  std::string_view name;
  int value;
};

class Fields {
 public:
  // Errors: kBadInput when `map` is none. `model` receives notes; both outlive the reader.
  Fields(const Node& map, Model& model);

  const Node& node() const { return *node_; }
  Model& model() const { return *model_; }

  // The field under the first name that has a value, null when none has; all names count as read.
  // Errors: kBadInput when two names hold different scalars.
  const Node* Take(FieldNames names);
  // Like Take, without counting as read.
  const Node* Peek(FieldNames names) const;

  // Positive sizes. Errors: kBadInput for wrong types and values out of [1, most]; when the field
  // is missing and has no default.
  int Size(FieldNames names, int most = kWidest);
  // Empty when neither the file nor a default states it.
  std::optional<int> SizeIfStated(FieldNames names, int most = kWidest);
  int SizeOr(FieldNames names, int fallback, int most = kWidest);
  // Counts that may be 0.
  int CountOr(FieldNames names, int fallback, int most = kWidest);
  bool FlagOr(FieldNames names, bool fallback);
  std::string TextOr(FieldNames names, const std::string& fallback);

  // Sizes that stand in for absent ones; each use is noted in `model.assumed`, naming `source`.
  void Assume(std::span<const DefaultSize> defaults, std::string_view source);
  // Fields of that name are looked up in `outer` when they are absent here.
  void Inherit(Fields& outer, std::string_view name);

  // Position and path for messages about what is missing.
  [[noreturn]] void Missing(FieldNames names, std::string_view expected) const;

  // Members that were not taken, in the order written.
  std::vector<const std::pair<std::string, Node>*> Untaken() const;

 private:
  const DefaultSize* Default(FieldNames names) const;

  const Node* node_;
  Model* model_;
  std::set<std::string, std::less<>> taken_;
  std::span<const DefaultSize> defaults_;
  std::string_view defaults_source_;
  Fields* outer_ = nullptr;
  std::vector<std::string_view> inherited_;
};

// "text_config.hidden_size".
std::string FieldPath(const Node& map, std::string_view name);

}  // namespace restow
