// restow devices: presets with the source of their figures.
#include "cli/common.h"
#include "cli/output.h"
#include "cli/presets.h"
#include "restow/io/presets.h"
#include "restow/io/write.h"

namespace restow::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string device;
};

// A preset says nothing of how many there are. This many are whole nodes of 4, 8, 16, 64, 72 and
// 384 devices, so that every preset shows its levels; the outermost one's size is not shown.
constexpr int kManyDevices = 9216;

Cluster OneDevice(const std::string& name) {
  return ClusterOf(DevicePreset(name, {"argument", 0, 0}), kManyDevices, 0);
}

int ShowOne(const Options& options) {
  const Cluster cluster = OneDevice(options.device);
  Deliver(options.common, {[&](const TableStyle& style) { return DrawDevice(cluster, style); },
                           [&] { return ToJson(cluster); }, nullptr});
  return kOk;
}

int ShowPresets(const Options& options) {
  std::vector<Cluster> devices;
  for (const std::string& name : DevicePresets()) devices.push_back(OneDevice(name));
  const auto json = [&] {
    std::vector<std::string> documents;
    for (const Cluster& device : devices) documents.push_back(ToJson(device));
    return JsonList(documents);
  };
  Deliver(options.common,
          {[&](const TableStyle& style) { return DrawDevices(devices, style); }, json, nullptr});
  return kOk;
}

}  // namespace

void AddDevices(CLI::App& app, Commands& commands) {
  CLI::App& sub = *app.add_subcommand("devices", "show a device preset; list presets");
  const auto options = std::make_shared<Options>();
  sub.add_option("PRESET", options->device, "nothing lists presets")->type_name("");
  AddCommonOptions(sub, options->common);
  commands.push_back({&sub, [options] {
                        return options->device.empty() ? ShowPresets(*options) : ShowOne(*options);
                      }});
}

}  // namespace restow::cli
