#include "cpp/plan_matching.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "restow/io/read.h"
#include "restow/io/write.h"

namespace restow::python {
namespace {

namespace py = pybind11;

// What the plan makes of the modules it matches: their names, and their regions by index.
std::vector<std::pair<std::string, int>> Match(const std::string& text, const std::string& name,
                                               const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, int>> matches;
  for (ModuleMatch& match : MatchModules(ReadActivationPlan(text, name), names)) {
    matches.emplace_back(std::move(match.module), match.region);
  }
  return matches;
}

// The plan as it was understood: everything checked, nothing left out.
std::string Checked(const std::string& text, const std::string& name) {
  return ToJson(ReadActivationPlan(text, name));
}

}  // namespace

void RegisterPlanMatching(py::module_& m) {
  m.def("read_activation_plan", Checked, py::arg("text"), py::arg("name"));
  m.def("match_activation_plan", Match, py::arg("text"), py::arg("name"), py::arg("names"));
}

}  // namespace restow::python
