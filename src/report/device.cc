// The answer of `devices`: data-sheet figures of presets and where they come from.
#include <fmt/format.h>

#include "report/text.h"
#include "restow/base/units.h"
#include "restow/report/table.h"

namespace restow {
namespace {

using report::Align;
using report::Column;
using report::Ink;
using report::Note;
using report::Row;

constexpr std::size_t kLabel = 18;

std::string Rate(FlopsPerSecond rate) { return fmt::format("{:.0f}", rate.value() / 1e12); }

// Data sheets state bandwidths in powers of 1000.
std::string Bandwidth(BytesPerSecond rate) {
  const double gigabytes = rate.value() / 1e9;
  return gigabytes >= 1000 ? fmt::format("{:.2f} TB/s", gigabytes / 1000)
                           : fmt::format("{:.4g} GB/s", gigabytes);
}

std::string Peak(const Device& device, DType dtype) {
  const auto found = device.peak.find(dtype);
  return found == device.peak.end() ? "" : Rate(found->second);
}

}  // namespace

std::string DrawDevice(const Cluster& one, const TableStyle& style) {
  const Device& device = one.device;
  std::string text = report::Paint(style, Ink::kBold, device.name) + "\n\n";
  const auto add = [&](const std::string& label, const std::string& value) {
    text += Note(style, label, value, kLabel);
  };
  for (const auto& [dtype, rate] : device.peak) {
    add(std::string("peak ") + Name(dtype), Rate(rate) + " TFLOP/s, dense");
  }
  add("memory", FormatBytes(device.memory) + ", " + Bandwidth(device.memory_bandwidth));
  if (device.host_link != BytesPerSecond()) {
    add("host link", Bandwidth(device.host_link) + " each way");
  }
  if (device.host_memory != Bytes()) {
    add("host memory", FormatBytes(device.host_memory) + " a node");
  }
  if (device.compute_units != 0) add("compute units", FormatCount(device.compute_units));
  add("per node", FormatCount(one.per_node) + " devices");
  for (const Level& level : one.levels) {
    const bool last = &level == &one.levels.back();
    const std::string reach = last ? "all devices" : FormatCount(level.size) + " devices";
    std::string line = fmt::format("{}, {} a device each way", reach, Bandwidth(level.bandwidth));
    if (level.latency != Seconds()) line += ", latency " + FormatSeconds(level.latency);
    add("link " + level.name, line);
  }
  if (device.full_mesh) add("fabric", "point to point: a group of g reaches g-1 of its links");
  add("source", device.source);
  return text;
}

std::string DrawDevices(const std::vector<Cluster>& devices, const TableStyle& style) {
  std::vector<Row> rows;
  for (const Cluster& one : devices) {
    const Device& device = one.device;
    rows.push_back({{device.name, FormatBytes(device.memory), Bandwidth(device.memory_bandwidth),
                     Peak(device, DType::kBf16), Peak(device, DType::kFp8),
                     one.levels.empty() ? "" : Bandwidth(one.levels.front().bandwidth),
                     FormatCount(one.per_node)},
                    Ink::kPlain,
                    ""});
  }
  const std::vector<Column> columns = {{"preset", "", Align::kLeft, true},
                                       {"memory", "", Align::kRight, false},
                                       {"bandwidth", "", Align::kRight, false},
                                       {"bf16", "TFLOP/s", Align::kRight, false},
                                       {"fp8", "TFLOP/s", Align::kRight, false},
                                       {"inner link", "each way", Align::kRight, false},
                                       {"per node", "devices", Align::kRight, false}};
  return report::DrawTable(style, columns, rows);
}

}  // namespace restow
