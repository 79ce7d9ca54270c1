#include "python/groups.h"

#include <string>
#include <vector>

#include "engine/groups.h"
#include "engine/host.h"

namespace restow::libtorch {
namespace {

// Any of them may wait for the device or for another thread.
template <void (*kCall)(const std::string&)>
void WithoutLock(const std::string& group) {
  const LockPause pause;
  kCall(group);
}

std::vector<std::string> Names() {
  const LockPause pause;
  return GroupNames();
}

}  // namespace

void DefineGroups(pybind11::module_& m) {
  m.def("group_launch_offload", &WithoutLock<&LaunchGroupOffload>);
  m.def("group_wait_offload", &WithoutLock<&WaitGroupOffload>);
  m.def("group_launch_load", &WithoutLock<&LaunchGroupLoad>);
  m.def("group_wait_load", &WithoutLock<&WaitGroupLoad>);
  m.def("group_drop", &WithoutLock<&DropGroup>);
  m.def("group_names", &Names);
}

}  // namespace restow::libtorch
