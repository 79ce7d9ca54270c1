// Names of swap files, and removing those that dead processes left.
//
// A swap file has a name only while it is being made, or for as long as it lives on the few file
// systems that cannot unlink an open file. Its owner then holds its lock (flock), which the kernel
// drops when the owner dies however that happens; process ids, which are reused and mean nothing
// in another container, are in the name for people only.
#pragma once

#include <string>
#include <string_view>

#include "swap/file_tier/file_ops.h"

namespace restow::swap::file_tier {

// "restow-PID-START-N.swap": process id, its start in clock ticks since boot, a count.
std::string NewSwapFileName();
bool IsSwapFileName(std::string_view name);

// Removes swap files in `dir` that are this user's and that no one has locked; returns how many.
// Files that cannot be looked at are left. Requires: `dir` open for reading.
int RemoveLeftovers(FileOps& ops, int dir);

}  // namespace restow::swap::file_tier
