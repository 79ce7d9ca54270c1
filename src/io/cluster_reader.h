// The `cluster` of a job: a preset or an inline device, how many, and the links between them.
#pragma once

#include <string>
#include <vector>

#include "io/fields.h"
#include "restow/io/document.h"
#include "restow/schema/cluster.h"

namespace restow {

// Errors: kBadInput with position.
Cluster ReadCluster(const Node& node);

// The fields of one device onto `device`; those absent keep what it holds.
void ReadDeviceFields(Members& fields, Device& device);

// Levels as stated, sizes strictly growing. A size of 0 stands for `all`, the whole cluster.
std::vector<Level> ReadLevels(const Node& node);

// The levels that a cluster of so many devices has: domains it does not fill end at its size.
std::vector<Level> LevelsFor(const std::vector<Level>& stated, int devices);

}  // namespace restow
