#include "io/write_json.h"

#include <fmt/format.h>

#include <cmath>

#include "restow/base/error.h"
#include "restow/io/write.h"

namespace restow::internal {

Json Number(double value) {
  if (!std::isfinite(value)) {
    throw Error(ErrorCode::kInternal, "a figure of the report is not a finite number");
  }
  return value == 0 ? Json(0.0) : Json(value);  // never -0.0
}

Json Header(const char* name, const std::string& version) {
  Json json;
  json["schema"] = fmt::format("restow.{}/1", name);
  if (!version.empty()) json["version"] = version;
  return json;
}

Json JobJson(const std::string& digest, const std::string& name) {
  Json json;
  json["digest"] = digest;
  json["name"] = name;
  return json;
}

Json CalibrationJson(const std::string& id, int rows) {
  Json json;
  json["id"] = id;
  json["rows"] = rows;
  return json;
}

Json NumbersJson(const std::vector<std::pair<std::string, std::int64_t>>& numbers) {
  Json json = Json::object();
  for (const auto& [name, value] : numbers) json[name] = value;
  return json;
}

// Names in a job can hold any bytes; what is not UTF-8 is replaced instead of failing the report.
std::string Text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace restow::internal

namespace restow {

std::string JsonList(const std::vector<std::string>& documents) {
  std::string text = "[\n";
  for (std::size_t i = 0; i < documents.size(); ++i) {
    std::string document = documents[i];
    if (!document.empty() && document.back() == '\n') document.pop_back();
    text += document + (i + 1 < documents.size() ? ",\n" : "\n");
  }
  return text + "]\n";
}

}  // namespace restow
