// Anything that holds a model, by name or path.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "io/model_reader.h"
#include "restow/base/text.h"
#include "restow/io/presets.h"
#include "restow/io/read.h"

namespace restow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfig = "config.json";

bool LooksLikePath(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".json") ||
         text.ends_with(".yaml") || text.ends_with(".yml");
}

// A config.json is called after its folder, another file after itself.
std::string NameOf(const fs::path& path) {
  if (path.filename() != kConfig) return path.stem().string();
  std::error_code ignored;
  return fs::absolute(path, ignored).parent_path().filename().string();
}

Model ReadModelDocument(const Node& document, const fs::path& path) {
  document.ExpectMap();
  if (IsInlineModel(document)) return ReadInlineModel(document, NameOf(path));
  if (document.Find("model") != nullptr) {
    return ReadModelOfJob(document, path.parent_path().string());
  }
  return ReadHuggingFace(document, NameOf(path));
}

bool IsPreset(const std::string& name) {
  const std::vector<std::string> names = ModelPresets();
  return std::find(names.begin(), names.end(), name) != names.end();
}

Model ReadAnyModel(const std::string& path_or_preset) {
  if (path_or_preset == "-") {
    return ReadModelDocument(ReadDocument(path_or_preset), "standard-input");
  }
  std::error_code ignored;
  fs::path path = path_or_preset;
  if (fs::is_directory(path, ignored)) path /= kConfig;
  const bool exists = fs::exists(path, ignored);
  if (!exists && (IsPreset(path_or_preset) || !LooksLikePath(path_or_preset))) {
    return ModelPreset(path_or_preset);
  }
  return ReadModelDocument(ReadDocument(path.string()), path);
}

}  // namespace

Model ReadModel(const std::string& path_or_preset, bool strict) {
  Model model = ReadAnyModel(path_or_preset);
  if (!strict || model.unknown.empty()) return model;
  std::vector<std::string> fields;
  for (const FieldNote& note : model.unknown) fields.push_back(note.path);
  ThrowBadInput(
      "fields that are not known: " + JoinWords(fields) + "; remove them, or read without --strict",
      {path_or_preset, 0, 0});
}

}  // namespace restow
