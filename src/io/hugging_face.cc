// config.json into a model: which family it is, and the family's reader.
#include "io/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/model_reader.h"
#include "restow/base/text.h"
#include "restow/io/read.h"

namespace restow {
namespace hugging_face {
namespace {

const Family* Find(std::span<const Family> families, std::string_view type,
                   std::string_view architecture) {
  for (const Family& family : families) {
    const bool hit = type.empty()
                         ? !family.architecture.empty() && family.architecture == architecture
                         : family.name == type;
    if (hit) return &family;
  }
  return nullptr;
}

std::vector<std::string> KnownFamilies() {
  std::vector<std::string> names;
  for (const auto& table :
       {DenseFamilies(), ClassicFamilies(), ExpertFamilies(), MultimodalFamilies()}) {
    for (const Family& family : table) names.emplace_back(family.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

[[noreturn]] void ThrowUnknown(const Node& map) {
  const std::string type = TextOf(map, "model_type");
  const std::string name = type.empty() ? FirstArchitecture(map) : type;
  if (name.empty()) {
    ThrowUnsupported(
        "the file states neither model_type nor architectures, so its family is not "
        "known and it cannot be priced",
        map.where);
  }
  const std::vector<std::string> known = KnownFamilies();
  const Node* at = map.Find("model_type");
  ThrowUnsupported(fmt::format("family '{}' is not known (known: {}){}", name,
                               fmt::join(known, ", "), DidYouMean(name, known)),
                   at != nullptr ? at->where : map.where);
}

// The last part of a repository's name; a path of somebody's machine names nothing.
std::string ModelName(const Node& config, const std::string& fallback) {
  const std::string stated = TextOf(config, "_name_or_path");
  if (stated.empty() || stated.front() == '/' || stated.front() == '.') return fallback;
  const std::string last = stated.substr(stated.rfind('/') + 1);
  return last.empty() ? fallback : last;
}

// Whole files state their sizes; only the width of a head has a default that is not derived.
void AssumeHeadWidth(Fields& f, const Family& family) {
  for (const DefaultSize& known : family.defaults) {
    if (known.name == "head_dim") f.Assume({&known, 1}, family.name);
  }
}

}  // namespace

const Family* FindLanguageFamily(std::string_view model_type, std::string_view architecture) {
  for (const auto& table : {DenseFamilies(), ClassicFamilies(), ExpertFamilies()}) {
    if (const Family* family = Find(table, model_type, architecture)) return family;
  }
  return nullptr;
}

void ReadNestedLanguage(Fields& outer, Fields& text, std::string_view usual, Model& model) {
  const Node& map = text.node();
  RefuseUnpriced(map);
  std::string type = TextOf(map, "model_type");
  const std::string architecture = FirstArchitecture(map);
  if (type.empty() && architecture.empty()) type = usual;
  const Family* family = FindLanguageFamily(type, architecture);
  if (family == nullptr) ThrowUnknown(map);
  text.Inherit(outer, "tie_word_embeddings");
  text.Inherit(outer, "vocab_size");
  text.Assume(family->defaults, family->name);
  family->read(text, model);
  NoteUntaken(text, model);
}

}  // namespace hugging_face

Model ReadHuggingFace(const Node& config, const std::string& name) {
  using namespace hugging_face;
  config.ExpectMap();
  RefuseUnpriced(config);
  const std::string type = TextOf(config, "model_type");
  const std::string architecture = FirstArchitecture(config);
  const Family* family = Find(MultimodalFamilies(), type, architecture);
  if (family == nullptr) family = FindLanguageFamily(type, architecture);
  if (family == nullptr) ThrowUnknown(config);
  Model model;
  model.name = ModelName(config, name);
  model.family = family->name;
  Fields fields(config, model);
  AssumeHeadWidth(fields, *family);
  family->read(fields, model);
  NoteUntaken(fields, model);
  RefuseAbsurd(model, config.where);
  return model;
}

}  // namespace restow
