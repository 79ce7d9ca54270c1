// Groups steered by hand, over all devices.
#pragma once

#include <string>
#include <vector>

namespace restow::libtorch {

// Groups of regions with `Steering::kManual`, over every engine that has one of that name; a name
// that no engine knows is no error, since nothing may have been saved in it. A wait, or a launch of
// loads, is for the engines on which the launch before it began. Threads: any; the order of calls
// is the caller's. Errors: what the device or the tier threw at WaitGroupLoad.
void LaunchGroupOffload(const std::string& group);
void WaitGroupOffload(const std::string& group);
void LaunchGroupLoad(const std::string& group);
void WaitGroupLoad(const std::string& group);
// Forgets the name. What was saved in it lives on, and is brought back when it is used.
void DropGroup(const std::string& group);
// Names that some engine knows, sorted.
std::vector<std::string> GroupNames();

}  // namespace restow::libtorch
