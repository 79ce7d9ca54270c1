// Selective recompute for Python: operators and policies as Python objects.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace restow::libtorch {

void DefineSelective(pybind11::module_& m);

}  // namespace restow::libtorch
