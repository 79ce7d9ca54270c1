// Device and cluster presets as their files hold them.
#pragma once

#include <string>
#include <vector>

#include "restow/base/error.h"
#include "restow/io/document.h"
#include "restow/schema/cluster.h"

namespace restow {

struct DeviceFile {
  Device device;
  std::vector<std::string> aliases;
  int per_node = 0;
  std::vector<Level> levels;  // size 0: the whole cluster
};

// By name or alias, in any case; null when there is none.
const DeviceFile* FindDeviceFile(const std::string& name);
// As above. Errors: kBadInput with the nearest names.
const DeviceFile& NeedDeviceFile(const std::string& name, const SourcePosition& where);

// Chips that the presets name: what `silicon` may be.
std::vector<std::string> SiliconNames();
// Of the first preset with that chip; 0 when none has it.
int ComputeUnitsOf(const std::string& silicon);

// The map of a cluster preset. Errors: kBadInput with the nearest names.
Node ClusterPresetNode(const std::string& name, const SourcePosition& where);

}  // namespace restow
