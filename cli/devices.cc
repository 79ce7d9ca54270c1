// restow devices: presets with the source of their figures.
#include "cli/common.h"
#include "cli/output.h"
#include "restow/io/presets.h"
#include "restow/io/write.h"

namespace restow::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string device;
};

int ShowOne(const Options& options) {
  const Cluster cluster = PresetCluster(options.device, {"argument", 0, 0});
  Deliver(options.common, {[&](const TableStyle& style) { return DrawDevice(cluster, style); },
                           [&] { return ToJson(cluster); }, nullptr});
  return kOk;
}

int ShowPresets(const Options& options) {
  std::vector<Cluster> devices;
  for (const std::string& name : DevicePresets()) devices.push_back(PresetCluster(name));
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

std::function<int()> DeclareDevices(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.Positional("PRESET", options->device, "nothing lists presets", false);
  DeclareCommon(arguments, options->common);
  return [options] { return options->device.empty() ? ShowPresets(*options) : ShowOne(*options); };
}

}  // namespace restow::cli
