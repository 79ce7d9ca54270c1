#include "io/model_of_job.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "io/fields.h"
#include "io/hyperparallel.h"
#include "io/model_reader.h"
#include "restow/base/error.h"
#include "restow/base/text.h"
#include "restow/io/presets.h"
#include "restow/io/read.h"

namespace restow {
namespace {

bool IsFolder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// A config.json is named after the folder it stands in, as Hugging Face names models.
std::string NameOfConfig(const std::string& path) {
  const std::string stem = StemOf(path);
  if (stem != "config") return stem;
  const std::string folder = FolderOf(path);
  const std::size_t slash = folder.rfind('/');
  const std::string last = slash == std::string::npos ? folder : folder.substr(slash + 1);
  return last.empty() || last == "." ? stem : last;
}

ModelRead ReadConfigFile(const Node& node, const std::string& base_folder) {
  std::string path = ResolvePath(node.AsString(), base_folder);
  if (IsFolder(path)) path += "/config.json";
  std::string text;
  try {
    text = ReadFileText(path);
  } catch (const Error& error) {
    ThrowBadInput(node.path + ": " + path + ": " + error.message(), node.where);
  }
  const Node config = ParseDocument(text, Language::kJson, path);
  return {ReadHuggingFace(config, NameOfConfig(path)), std::move(text)};
}

// In a job's own words an unknown key is a mistake, not another program's field.
void RefuseUnknown(const Model& model, const Node& node) {
  for (const FieldNote& note : model.unknown) {
    SourcePosition where = node.where;
    for (std::size_t i = 0; i < node.members.size(); ++i) {
      if (node.members[i].second.path == note.path) where = node.key_positions[i];
    }
    ThrowBadInput(fmt::format("unknown key '{}'; {}", note.path, note.reason), where);
  }
}

}  // namespace

ModelRead ReadModelSection(const Node& node, const std::string& base_folder) {
  if (!node.is_map()) {
    RefuseValue(node, "allowed: {hf: PATH}, {preset: NAME}, or the fields of restow.model/1");
  }
  const Node* hf = node.Find("hf");
  const Node* preset = node.Find("preset");
  if (hf == nullptr && preset == nullptr) {
    ModelRead read = {ReadInlineModel(node, "inline"), Canonical(node)};
    RefuseUnknown(read.model, node);
    return read;
  }
  Members fields(node);
  fields.Take("hf");
  fields.Take("preset");
  if (hf != nullptr && preset != nullptr) {
    ThrowBadInput(node.path + " states both hf and preset; one of them is expected", preset->where);
  }
  fields.RefuseRest();
  if (hf != nullptr) return ReadConfigFile(*hf, base_folder);
  return {ModelPreset(preset->AsString(), preset->where), preset->text};
}

Model ReadModelOfJob(const Node& document, const std::string& base_folder) {
  if (IsHyperParallel(document)) return ReadHyperParallelModel(document, base_folder);
  Members fields(document);
  return ReadModelSection(fields.Need("model", "state {hf: PATH}, {preset: NAME} or the fields"),
                          base_folder)
      .model;
}

}  // namespace restow
