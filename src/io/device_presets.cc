#include "io/device_presets.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/cluster_reader.h"
#include "io/embedded.h"
#include "io/fields.h"
#include "restow/base/check.h"
#include "restow/base/text.h"
#include "restow/io/presets.h"

namespace restow {
namespace {

constexpr std::string_view kDeviceFolder = "presets/devices/";
constexpr std::string_view kClusterFolder = "presets/clusters/";

DeviceFile ReadDeviceFile(const Node& node) {
  Members fields(node);
  DeviceFile file;
  ReadDeviceFields(fields, file.device);
  if (const Node* aliases = fields.Take("aliases")) file.aliases = ReadTexts(*aliases);
  file.per_node = ReadCount(fields.Need("per_node", "state the devices of a node"));
  file.levels = ReadLevels(fields.Need("levels", "state the links"));
  fields.RefuseRest();
  return file;
}

const std::vector<DeviceFile>& DeviceFiles() {
  static const std::vector<DeviceFile> files = [] {
    std::vector<DeviceFile> all;
    for (const internal::EmbeddedFile& file : internal::EmbeddedPresets()) {
      if (file.path.rfind(kDeviceFolder, 0) != 0) continue;
      all.push_back(ReadDeviceFile(ParseDocument(file.text, Language::kYaml, file.path)));
    }
    std::sort(all.begin(), all.end(), [](const DeviceFile& a, const DeviceFile& b) {
      return a.device.name < b.device.name;
    });
    return all;
  }();
  return files;
}

std::vector<std::string> ClusterPresets() {
  std::vector<std::string> names;
  for (const internal::EmbeddedFile& file : internal::EmbeddedPresets()) {
    if (file.path.rfind(kClusterFolder, 0) == 0) names.push_back(StemOf(file.path));
  }
  std::sort(names.begin(), names.end());
  return names;
}

[[noreturn]] void RefuseName(const std::string& name, const char* what,
                             const std::vector<std::string>& known,
                             const std::vector<std::string>& listed, const SourcePosition& where) {
  const bool near = !NearestWord(name, known).empty();
  ThrowBadInput(fmt::format("'{}' is no {} preset{}{} presets: {}", name, what,
                            DidYouMean(name, known), near ? "" : ";", JoinWords(listed)),
                where);
}

}  // namespace

const DeviceFile* FindDeviceFile(const std::string& name) {
  const std::string word = Lower(Trim(name));
  for (const DeviceFile& file : DeviceFiles()) {
    const auto end = file.aliases.end();
    if (file.device.name == word || std::find(file.aliases.begin(), end, word) != end) {
      return &file;
    }
  }
  return nullptr;
}

const DeviceFile& NeedDeviceFile(const std::string& name, const SourcePosition& where) {
  if (const DeviceFile* file = FindDeviceFile(name)) return *file;
  std::vector<std::string> known = DevicePresets();
  for (const DeviceFile& file : DeviceFiles()) {
    known.insert(known.end(), file.aliases.begin(), file.aliases.end());
  }
  RefuseName(name, "device", known, DevicePresets(), where);
}

std::vector<std::string> SiliconNames() {
  std::vector<std::string> names;
  for (const DeviceFile& file : DeviceFiles()) {
    const std::string& name = file.device.silicon;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

int ComputeUnitsOf(const std::string& silicon) {
  for (const DeviceFile& file : DeviceFiles()) {
    if (file.device.silicon == silicon) return file.device.compute_units;
  }
  return 0;
}

Node ClusterPresetNode(const std::string& name, const SourcePosition& where) {
  const std::string path = fmt::format("{}{}.yaml", kClusterFolder, Lower(Trim(name)));
  for (const internal::EmbeddedFile& file : internal::EmbeddedPresets()) {
    if (file.path == path) return ParseDocument(file.text, Language::kYaml, file.path);
  }
  RefuseName(name, "cluster", ClusterPresets(), ClusterPresets(), where);
}

std::vector<std::string> DevicePresets() {
  std::vector<std::string> names;
  for (const DeviceFile& file : DeviceFiles()) names.push_back(file.device.name);
  return names;
}

Device DevicePreset(const std::string& name, SourcePosition where) {
  return NeedDeviceFile(name, where).device;
}

Cluster ClusterOf(const Device& device, int devices, int per_node) {
  const DeviceFile& file = NeedDeviceFile(device.name, {});
  Cluster cluster;
  cluster.device = device;
  cluster.devices = devices;
  cluster.per_node = std::min(per_node > 0 ? per_node : file.per_node, devices);
  cluster.levels = LevelsFor(file.levels, devices);
  return cluster;
}

Cluster PresetCluster(const std::string& device, SourcePosition where) {
  // Whole nodes of 4, 8, 16, 64, 72 and 384 devices, so that every preset shows its levels.
  constexpr int kManyDevices = 9216;
  return ClusterOf(DevicePreset(device, std::move(where)), kManyDevices, 0);
}

}  // namespace restow
