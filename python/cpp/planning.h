// plan, price, explain, compare and export.
#pragma once

#include <pybind11/pybind11.h>

namespace restow::python {

void RegisterPlanning(pybind11::module_& m);

}  // namespace restow::python
