// Published JSON Schemas. Definitions that several of them use stand once, in schemas/common.json,
// and are copied into each schema that refers to them, so that every printed schema stands alone.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "io/embedded.h"
#include "io/write_json.h"
#include "restow/base/error.h"
#include "restow/base/text.h"
#include "restow/io/write.h"

namespace restow {

using internal::Json;

namespace {

constexpr std::string_view kFolder = "schemas/";
constexpr std::string_view kSuffix = ".json";
constexpr std::string_view kCommon = "common";
constexpr std::string_view kDefinition = "#/$defs/";

std::string NameOf(const std::string& path) {
  return path.substr(kFolder.size(), path.size() - kFolder.size() - kSuffix.size());
}

const std::string& SchemaFile(std::string_view name) {
  for (const internal::EmbeddedFile& file : internal::EmbeddedPresets()) {
    if (file.path.rfind(kFolder, 0) == 0 && NameOf(file.path) == name) return file.text;
  }
  throw Error(ErrorCode::kInternal, fmt::format("the schema '{}' is not in the binary", name));
}

void CollectReferences(const Json& json, std::set<std::string>& names) {
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      if (key == "$ref" && value.get<std::string>().rfind(kDefinition, 0) == 0) {
        names.insert(value.get<std::string>().substr(kDefinition.size()));
      }
      CollectReferences(value, names);
    }
  } else if (json.is_array()) {
    for (const Json& item : json) CollectReferences(item, names);
  }
}

// Until nothing is missing: a definition may refer to further ones.
void AddDefinitions(Json& schema, const Json& common) {
  while (true) {
    std::set<std::string> names;
    CollectReferences(schema, names);
    const auto missing = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return !schema.contains("$defs") || !schema["$defs"].contains(name);
    });
    if (missing == names.end()) return;
    schema["$defs"][*missing] = common.at("$defs").at(*missing);
  }
}

}  // namespace

std::vector<std::string> JsonSchemaNames() {
  std::vector<std::string> names;
  for (const internal::EmbeddedFile& file : internal::EmbeddedPresets()) {
    if (file.path.rfind(kFolder, 0) != 0 || NameOf(file.path) == kCommon) continue;
    names.push_back(NameOf(file.path));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string JsonSchema(const std::string& name) {
  const std::vector<std::string> names = JsonSchemaNames();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    ThrowUsage(fmt::format("no schema is called '{}'{}; the schemas are {}", name,
                           DidYouMean(name, names), JoinWords(names)));
  }
  Json schema = Json::parse(SchemaFile(name));
  AddDefinitions(schema, Json::parse(SchemaFile(kCommon)));
  return internal::Text(schema);
}

}  // namespace restow
