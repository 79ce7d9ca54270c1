// Calibration files: constants with their sources, devices that stand in for others, and the
// releases of training software by profile.
#include "restow/schema/calibration.h"

#include <fmt/format.h>

#include "io/embedded.h"
#include "io/fields.h"
#include "restow/base/check.h"
#include "restow/base/text.h"
#include "restow/io/document.h"
#include "restow/io/presets.h"
#include "restow/io/read.h"

namespace restow {
namespace {

constexpr const char* kPath = "presets/calibration.yaml";
constexpr int kMostRows = 1000000;

const Node& Required(const Node& map, const char* key) {
  const Node* found = map.Find(key);
  if (found == nullptr) ThrowBadInput(fmt::format("'{}' is missing", key), map.where);
  return *found;
}

void RefuseUnknown(const Node& map, const std::vector<std::string>& known) {
  for (std::size_t i = 0; i < map.members.size(); ++i) {
    const std::string& key = map.members[i].first;
    bool found = false;
    for (const std::string& name : known) found = found || key == name;
    if (!found) {
      ThrowBadInput(fmt::format("'{}' is not a field of a calibration; known are {}{}", key,
                                JoinWords(known), DidYouMean(key, known)),
                    map.key_positions[i]);
    }
  }
}

// Shares, factors and times are at least 0; a spread is, too.
double NotNegative(const Node& node) {
  const double value = node.AsNumber();
  if (value < 0) {
    ThrowBadInput(fmt::format("{} is {}; 0 or more is expected", node.path, node.Written()),
                  node.where);
  }
  return value;
}

void ReadConstant(const Node& node, Calibration& calibration) {
  node.ExpectMap();
  RefuseUnknown(node, {"name", "value", "unit", "start", "allowed", "spread", "rows", "fitted_on",
                       "source", "note"});
  const Node& name = Required(node, "name");
  Constant constant;
  constant.value = NotNegative(Required(node, "value"));
  if (const Node* spread = node.Find("spread")) constant.spread = NotNegative(*spread);
  if (const Node* rows = node.Find("rows")) constant.rows = rows->AsInt(0, kMostRows);
  if (const Node* start = node.Find("start")) constant.start = NotNegative(*start);
  if (const Node* allowed = node.Find("allowed")) constant.allowed = NotNegative(*allowed);
  for (const auto& [key, text] :
       {std::pair{"fitted_on", &Constant::fitted_on}, std::pair{"unit", &Constant::unit},
        std::pair{"note", &Constant::note}}) {
    if (const Node* n = node.Find(key)) constant.*text = n->AsString();
  }
  constant.source = Required(node, "source").AsString();
  if (!calibration.constants.emplace(name.AsString(), constant).second) {
    ThrowBadInput(fmt::format("the constant {} is stated twice", name.Written()), name.where);
  }
}

void ReadSoftware(const Node& node, Calibration& calibration) {
  node.ExpectMap();
  RefuseUnknown(node, {"release", "profile"});
  const Node& release = Required(node, "release");
  const std::string& profile = Required(node, "profile").AsString();
  if (!calibration.software.emplace(Lower(release.AsString()), profile).second) {
    ThrowBadInput(fmt::format("the release {} is stated twice", release.Written()), release.where);
  }
}

LeftOut ReadLeftOut(const Node& node) {
  node.ExpectMap();
  RefuseUnknown(node, {"by", "groups", "runs", "median_abs_pct", "p95_abs_pct",
                       "fitted_median_abs_pct", "fitted_p95_abs_pct"});
  LeftOut left;
  left.by = Required(node, "by").AsString();
  left.groups = Required(node, "groups").AsInt(0, kMostRows);
  left.runs = Required(node, "runs").AsInt(0, kMostRows);
  left.median_abs_pct = NotNegative(Required(node, "median_abs_pct"));
  left.p95_abs_pct = NotNegative(Required(node, "p95_abs_pct"));
  left.fitted_median_abs_pct = NotNegative(Required(node, "fitted_median_abs_pct"));
  left.fitted_p95_abs_pct = NotNegative(Required(node, "fitted_p95_abs_pct"));
  return left;
}

Calibration ReadDefault() {
  for (const internal::EmbeddedFile& file : internal::EmbeddedPresets()) {
    if (file.path == kPath)
      return ReadCalibration(ParseDocument(file.text, Language::kYaml, kPath));
  }
  RESTOW_CHECK(false && "the calibration ships inside the binary");
  return {};
}

}  // namespace

Calibration ReadCalibration(const Node& document) {
  document.ExpectMap();
  RefuseUnknown(document, {"id", "rows", "left_out", "nearest", "software", "constants"});
  Calibration calibration;
  calibration.id = Required(document, "id").AsString();
  calibration.rows = Required(document, "rows").AsInt(0, kMostRows);
  if (const Node* left_out = document.Find("left_out")) {
    for (const Node& entry : left_out->AsList()) calibration.left_out.push_back(ReadLeftOut(entry));
  }
  if (const Node* nearest = document.Find("nearest")) {
    nearest->ExpectMap();
    for (const auto& [silicon, other] : nearest->members) {
      calibration.nearest.emplace(silicon, other.AsString());
    }
  }
  if (const Node* software = document.Find("software")) {
    for (const Node& entry : software->AsList()) ReadSoftware(entry, calibration);
  }
  for (const Node& entry : Required(document, "constants").AsList()) {
    ReadConstant(entry, calibration);
  }
  return calibration;
}

Calibration ReadWholeCalibration(const Node& document) {
  Calibration calibration = ReadCalibration(document);
  for (const auto& [name, constant] : DefaultCalibration().constants) {
    if (calibration.has(name)) continue;
    ThrowBadInput(
        fmt::format("the constant '{}' is missing, which this version needs; make the file "
                    "anew with 'restow calibrate'",
                    name),
        document.where);
  }
  return calibration;
}

Calibration ReadCalibrationFile(const std::string& path) {
  return ReadWholeCalibration(ReadDocument(path));
}

std::string CalibrationId(const std::string& path) { return StemOf(path); }

const Calibration& DefaultCalibration() {
  static const Calibration calibration = ReadDefault();
  return calibration;
}

}  // namespace restow
