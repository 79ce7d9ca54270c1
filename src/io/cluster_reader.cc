#include "io/cluster_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/device_presets.h"
#include "restow/base/error.h"
#include "restow/base/text.h"
#include "restow/io/presets.h"

namespace restow {
namespace {

// Tiles of a matrix product are spread over this many units where nothing is stated: H100's.
constexpr int kUsualComputeUnits = 132;

std::map<DType, FlopsPerSecond> ReadPeaks(const Node& node) {
  node.ExpectMap();
  const std::vector<std::string> dtypes = WordsOf<DType>(kDTypes);
  std::map<DType, FlopsPerSecond> peaks;
  for (std::size_t i = 0; i < node.members.size(); ++i) {
    const std::string word = Lower(Trim(node.members[i].first));
    const auto found = std::find(dtypes.begin(), dtypes.end(), word);
    if (found == dtypes.end()) {
      ThrowBadInput(fmt::format("unknown key '{}' in {}; allowed: {}", node.members[i].first,
                                node.path, JoinWords(dtypes)),
                    node.key_positions[i]);
    }
    peaks[static_cast<DType>(found - dtypes.begin())] = ReadRate(node.members[i].second);
  }
  if (peaks.empty()) RefuseValue(node, "a rate per dtype is expected: {bf16: 989 TFLOPS}");
  return peaks;
}

Level ReadLevel(const Node& node) {
  Members fields(node);
  Level level;
  level.name = fields.Need("name", "name the level, like nvlink").AsString();
  const Node& size = fields.Need("size", "state how many devices one domain of it holds");
  level.size = WordOf(size) == "all" ? 0 : ReadCount(size);
  level.bandwidth =
      ReadBandwidth(fields.Need("bandwidth", "state it per device and direction: 450 GB/s"));
  if (const Node* latency = fields.Take("latency")) level.latency = ReadTime(*latency);
  fields.RefuseRest();
  return level;
}

Device ReadInlineDevice(const Node& node) {
  Members fields(node);
  Device device;
  const Node* preset = fields.Take("preset");
  if (preset != nullptr) device = DevicePreset(preset->AsString(), preset->where);
  ReadDeviceFields(fields, device);
  if (const Node* silicon = fields.Take("silicon")) ReadWord(*silicon, SiliconNames());
  if (device.compute_units == 0) device.compute_units = ComputeUnitsOf(device.silicon);
  if (device.compute_units == 0) device.compute_units = kUsualComputeUnits;
  fields.RefuseRest();
  return device;
}

// Keys of the cluster that both a job and a preset may state; the job's count.
const Node* Stated(Members& job, Members* preset, const char* key) {
  const Node* own = job.Take(key);
  const Node* usual = preset == nullptr ? nullptr : preset->Take(key);
  return own != nullptr ? own : usual;
}

Cluster ReadCluster(Members& job, Members* preset) {
  const Node* device = Stated(job, preset, "device");
  if (device == nullptr) job.Need("device", "name a device preset or state one inline");
  const Node& count = job.Need("devices", "state how many devices there are");
  Cluster cluster;
  cluster.devices = ReadCount(count);
  const DeviceFile* file = nullptr;
  if (device->is_map()) {
    cluster.device = ReadInlineDevice(*device);
    file = FindDeviceFile(cluster.device.name);
  } else {
    file = &NeedDeviceFile(device->AsString(), device->where);
    cluster.device = file->device;
  }
  const Node* per_node = Stated(job, preset, "per_node");
  cluster.per_node = std::min(cluster.devices, file != nullptr ? file->per_node : 8);
  if (per_node != nullptr) cluster.per_node = ReadCount(*per_node);
  const Node* levels = Stated(job, preset, "levels");
  if (levels == nullptr && file == nullptr) {
    job.Need("levels", "an inline device has no usual links: state [{name, size, bandwidth}, ...]");
  }
  cluster.levels =
      LevelsFor(levels != nullptr ? ReadLevels(*levels) : file->levels, cluster.devices);
  return cluster;
}

}  // namespace

void ReadDeviceFields(Members& fields, Device& device) {
  const bool fresh = device.name.empty();
  if (fresh) device.name = "inline";
  if (const Node* name = fields.Take("name")) device.name = name->AsString();
  if (const Node* silicon = fields.Take("silicon")) device.silicon = WordOf(*silicon);
  const auto field = [&fields, fresh](const char* key, const char* hint) {
    return fresh ? &fields.Need(key, hint) : fields.Take(key);
  };
  if (const Node* n = field("peak", "state a rate per dtype: {bf16: 989 TFLOPS}")) {
    device.peak = ReadPeaks(*n);
  }
  if (const Node* n = field("memory", "state a size like 80 GB")) device.memory = ReadSize(*n);
  if (const Node* n = field("memory_bandwidth", "state a bandwidth like 3.35 TB/s")) {
    device.memory_bandwidth = ReadBandwidth(*n);
  }
  if (const Node* n = fields.Take("host_link")) device.host_link = ReadBandwidth(*n);
  if (const Node* n = fields.Take("host_memory")) device.host_memory = ReadSize(*n);
  if (const Node* n = fields.Take("compute_units")) device.compute_units = ReadCount(*n, 100000);
  if (const Node* n = fields.Take("full_mesh")) device.full_mesh = n->AsBool();
  if (const Node* n = fields.Take("source")) device.source = n->AsString();
}

std::vector<Level> ReadLevels(const Node& node) {
  std::vector<Level> levels;
  for (const Node& item : node.AsList()) {
    const Level level = ReadLevel(item);
    if (!levels.empty()) {
      const int below = levels.back().size;
      if (below == 0 || (level.size != 0 && level.size <= below)) {
        ThrowBadInput(
            fmt::format("{}.size is {}; sizes grow from the inside out, and the level before it "
                        "holds {}",
                        item.path, item.Find("size")->Written(),
                        below == 0 ? "all devices" : fmt::format("{} devices", below)),
            item.Find("size")->where);
      }
    }
    levels.push_back(level);
  }
  if (levels.empty()) RefuseValue(node, "at least one level is expected");
  return levels;
}

std::vector<Level> LevelsFor(const std::vector<Level>& stated, int devices) {
  std::vector<Level> levels;
  for (Level level : stated) {
    const bool last = level.size == 0 || level.size >= devices;
    if (last) level.size = devices;
    levels.push_back(level);
    if (last) break;
  }
  return levels;
}

Cluster ReadCluster(const Node& node) {
  Members job(node);
  Cluster cluster;
  if (const Node* name = job.Take("preset")) {
    const Node preset = ClusterPresetNode(name->AsString(), name->where);
    Members usual(preset);
    cluster = ReadCluster(job, &usual);
    usual.Take("source");
    usual.RefuseRest();
  } else {
    cluster = ReadCluster(job, nullptr);
  }
  job.RefuseRest();
  return cluster;
}

}  // namespace restow
