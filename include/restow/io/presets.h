// Data that ships inside the binary: devices, clusters, models, constants. Every figure has its
// source in the preset file under presets/.
#pragma once

#include <string>
#include <vector>

#include "restow/base/error.h"
#include "restow/schema/calibration.h"
#include "restow/schema/cluster.h"
#include "restow/schema/model.h"

namespace restow {

std::vector<std::string> DevicePresets();  // names, sorted
std::vector<std::string> ModelPresets();

// Errors: kBadInput, with the nearest names. `where` is the place of the name.
Device DevicePreset(const std::string& name, SourcePosition where = {});
Model ModelPreset(const std::string& name, SourcePosition where = {});

// Interconnect levels usual for a device: its scale-up domain and the network around it.
// `per_node` 0 takes the preset's. The last level covers all `devices`.
Cluster ClusterOf(const Device& device, int devices, int per_node);

// A device preset with its usual interconnect, as `devices` shows it: the number of devices is not
// part of it. Errors: kBadInput, with the nearest names.
Cluster PresetCluster(const std::string& device, SourcePosition where = {});

// The shipped constants.
const Calibration& DefaultCalibration();

}  // namespace restow
