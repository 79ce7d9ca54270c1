// restow._restow: the planner for python/restow, which gives it types and documentation.
#include <pybind11/pybind11.h>

#include "cpp/answer.h"
#include "cpp/catalogue.h"
#include "cpp/errors.h"
#include "cpp/plan_matching.h"
#include "cpp/planning.h"
#include "cpp/request.h"
#include "cpp/validation.h"
#include "restow/plan/planner.h"

PYBIND11_MODULE(_restow, m) {
  m.doc() = "Restow's planner in C++; use the restow package instead.";
  m.attr("version") = restow::kVersion;
  restow::python::RegisterErrors(m);
  restow::python::RegisterRequests(m);
  restow::python::RegisterAnswers(m);
  restow::python::RegisterPlanning(m);
  restow::python::RegisterPlanMatching(m);
  restow::python::RegisterCatalogue(m);
  restow::python::RegisterValidation(m);
}
