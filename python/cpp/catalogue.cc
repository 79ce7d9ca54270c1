#include "cpp/catalogue.h"

#include <pybind11/stl.h>

#include "cpp/answer.h"
#include "restow/io/presets.h"
#include "restow/io/read.h"
#include "restow/io/write.h"
#include "restow/report/table.h"

namespace restow::python {
namespace {

namespace py = pybind11;

Answer ModelOf(const std::string& path_or_preset, bool strict) {
  const Model model = ReadModel(path_or_preset, strict);
  return {ToJson(model), DrawModel(model, {}), {}, {}};
}

Answer DeviceOf(const std::string& preset) {
  const Cluster device = PresetCluster(preset, {"argument", 0, 0});
  return {ToJson(device), DrawDevice(device, {}), {}, {}};
}

template <class Term>
py::tuple TermNames(int count) {
  py::tuple names(count);
  for (int i = 0; i < count; ++i) {
    names[static_cast<std::size_t>(i)] = py::str(Name(static_cast<Term>(i)));
  }
  return names;
}

}  // namespace

void RegisterCatalogue(py::module_& m) {
  using Released = py::call_guard<py::gil_scoped_release>;
  m.def("model", ModelOf, py::arg("path_or_preset"), py::arg("strict"), Released());
  m.def("model_presets", ModelPresets);
  m.def("device", DeviceOf, py::arg("preset"));
  m.def("device_presets", DevicePresets);
  m.def("schema", JsonSchema, py::arg("name"));
  m.def("schema_names", JsonSchemaNames);
  m.attr("memory_terms") = TermNames<MemoryTerm>(kMemoryTerms);
  m.attr("time_terms") = TermNames<TimeTerm>(kTimeTerms);
}

}  // namespace restow::python
