// Devices of one of HyperParallel's files: type, count and memory.
#include <fmt/format.h>

#include <algorithm>

#include "io/cluster_reader.h"
#include "io/device_presets.h"
#include "io/fields.h"
#include "io/hyperparallel_file.h"
#include "restow/base/error.h"
#include "restow/base/units.h"
#include "restow/io/presets.h"

namespace restow::hyperparallel {
namespace {

constexpr const char* kUsualDevice = "ascend-910b";

Device ReadDeviceType(File& file, std::vector<FieldNote>& notes) {
  const Node* type = file.Find({"cluster.device_type", "context.device_type"});
  if (type != nullptr && WordOf(*type) != "ascend" && WordOf(*type) != "npu") {
    return DevicePreset(type->AsString(), type->where);
  }
  notes.push_back(
      {"cluster.device",
       fmt::format("{}; assumed {} (A2)", type == nullptr ? "not stated" : "only said to be Ascend",
                   kUsualDevice)});
  return DevicePreset(kUsualDevice);
}

int ReadDevices(File& file) {
  const Node* nodes = file.Find({"cluster.num_nodes"});
  const Node* cards = file.Find({"cluster.cards_per_node"});
  const Node* count = file.Find({"context.device_num"});
  if (nodes != nullptr && cards != nullptr) {
    return ReadCount(*nodes, 1 << 20) * ReadCount(*cards, 1 << 10);
  }
  return Count(count, 0);
}

bool IsOwnCluster(const Node* cluster) {
  return cluster != nullptr && cluster->is_map() &&
         (cluster->Find("device") != nullptr || cluster->Find("devices") != nullptr ||
          cluster->Find("preset") != nullptr);
}

}  // namespace

ClusterStatement ReadClusterStatement(File& file, std::vector<FieldNote>& notes) {
  ClusterStatement statement;
  const Node* cluster = file.root().Find("cluster");
  if (IsOwnCluster(cluster)) {
    file.Find({"cluster"});
    statement.whole = ReadCluster(*cluster);
    statement.device = statement.whole->device;
    statement.devices = statement.whole->devices;
    return statement;
  }
  statement.device = ReadDeviceType(file, notes);
  statement.devices = ReadDevices(file);
  const Node* cards = file.Find({"cluster.cards_per_node"});
  statement.per_node = Count(cards, 0);
  const Node* memory = file.Find({"cluster.device_memory_gb"});
  const Node* limit = file.Find({"context.max_device_memory"});
  const Node* stated = memory != nullptr ? memory : limit;
  if (stated != nullptr) statement.device.memory = ReadGib(*stated);
  for (const char* path :
       {"cluster.intra_node_bandwidth_gbps", "cluster.inter_node_bandwidth_gbps"}) {
    if (file.Find({path}) == nullptr) continue;
    notes.push_back({path, "bits or bytes is not stated; the preset's link rates are priced"});
  }
  return statement;
}

Cluster BuildCluster(const ClusterStatement& statement, int devices) {
  if (statement.whole) return *statement.whole;
  const int usual = NeedDeviceFile(statement.device.name, {}).per_node;
  int per_node = statement.per_node > 0 ? statement.per_node : usual;
  // A count that fills no whole node is spread over the largest part of one that divides it.
  if (statement.per_node == 0) {
    while (devices % std::min(per_node, devices) != 0) --per_node;
  }
  return ClusterOf(statement.device, devices, per_node);
}

}  // namespace restow::hyperparallel
