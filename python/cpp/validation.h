// validate and calibrate.
#pragma once

#include <pybind11/pybind11.h>

namespace restow::python {

void RegisterValidation(pybind11::module_& m);

}  // namespace restow::python
