// Activation plans and the modules of a model.
#pragma once

#include <pybind11/pybind11.h>

namespace restow::python {

void RegisterPlanMatching(pybind11::module_& m);

}  // namespace restow::python
