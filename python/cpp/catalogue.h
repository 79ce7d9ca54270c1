// models, devices, schema, and the closed lists of names.
#pragma once

#include <pybind11/pybind11.h>

namespace restow::python {

void RegisterCatalogue(pybind11::module_& m);

}  // namespace restow::python
