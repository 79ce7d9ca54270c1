// `restow.device/1`: data-sheet figures in SI units and the interconnect usual for the device.
#include "io/write_json.h"
#include "restow/io/write.h"

namespace restow {

using internal::Json;
using internal::Number;

std::string ToJson(const Cluster& one_device) {
  const Device& device = one_device.device;
  Json json = internal::Header("device", "");
  json["name"] = device.name;
  json["silicon"] = device.silicon;
  Json peak = Json::object();
  for (const auto& [dtype, rate] : device.peak) peak[Name(dtype)] = Number(rate.value());
  json["peak_flop_per_s"] = peak;
  json["memory_bytes"] = device.memory.value();
  json["memory_bytes_per_s"] = Number(device.memory_bandwidth.value());
  if (device.host_link != BytesPerSecond()) {
    json["host_link_bytes_per_s"] = Number(device.host_link.value());
  }
  if (device.host_memory != Bytes()) json["host_memory_bytes"] = device.host_memory.value();
  if (device.compute_units != 0) json["compute_units"] = device.compute_units;
  if (device.full_mesh) json["full_mesh"] = true;
  json["per_node"] = one_device.per_node;
  Json levels = Json::array();
  for (const Level& level : one_device.levels) {
    Json entry;
    entry["name"] = level.name;
    // The outermost level has no size of its own: it covers whatever the job's cluster has.
    if (&level != &one_device.levels.back()) entry["size"] = level.size;
    entry["bytes_per_s"] = Number(level.bandwidth.value());
    if (level.latency != Seconds()) entry["latency_s"] = Number(level.latency.value());
    levels.push_back(entry);
  }
  json["levels"] = levels;
  json["source"] = device.source;
  return internal::Text(json);
}

}  // namespace restow
