// Groups steered by hand, as the module's functions.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace restow::libtorch {

// group_launch_offload, group_wait_offload, group_launch_load, group_wait_load, group_drop,
// group_names. They know no order of calls: restow.torch.SwapManager does.
void DefineGroups(pybind11::module_& m);

}  // namespace restow::libtorch
