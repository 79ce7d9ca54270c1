// Models that ship inside the binary.
#include <fmt/format.h>

#include <algorithm>

#include "io/embedded.h"
#include "io/model_reader.h"
#include "restow/base/text.h"
#include "restow/io/presets.h"

namespace restow {
namespace {

constexpr std::string_view kFolder = "presets/models/";
constexpr std::string_view kSuffix = ".json";

bool IsModel(std::string_view path) { return path.starts_with(kFolder) && path.ends_with(kSuffix); }

std::string NameOf(std::string_view path) {
  return std::string(path.substr(kFolder.size(), path.size() - kFolder.size() - kSuffix.size()));
}

}  // namespace

std::vector<std::string> ModelPresets() {
  std::vector<std::string> names;
  for (const internal::EmbeddedFile& file : internal::EmbeddedPresets()) {
    if (IsModel(file.path)) names.push_back(NameOf(file.path));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Model ModelPreset(const std::string& name, SourcePosition where) {
  for (const internal::EmbeddedFile& file : internal::EmbeddedPresets()) {
    if (IsModel(file.path) && NameOf(file.path) == name) {
      return ReadInlineModel(ParseDocument(file.text, Language::kJson, file.path), name);
    }
  }
  const std::vector<std::string> names = ModelPresets();
  ThrowBadInput(fmt::format("'{}' is neither a file nor a model preset (presets: {}){}", name,
                            fmt::join(names, ", "), DidYouMean(name, names)),
                where);
}

}  // namespace restow
