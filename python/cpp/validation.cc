#include "cpp/validation.h"

#include <pybind11/stl.h>

#include <optional>

#include "cpp/answer.h"
#include "cpp/interruptible.h"
#include "restow/io/measured_runs.h"
#include "restow/io/read.h"
#include "restow/io/write.h"
#include "restow/report/validation.h"
#include "restow/validate/calibrate.h"
#include "restow/validate/validate.h"

namespace restow::python {
namespace {

namespace py = pybind11;

std::optional<Calibration> ReadIf(const std::optional<std::string>& path) {
  if (!path) return std::nullopt;
  return ReadCalibrationFile(*path);
}

Answer ValidationOf(const std::string& runs, const std::string& by,
                    const std::optional<std::string>& calibration) {
  const std::optional<Calibration> constants = ReadIf(calibration);
  ValidateOptions options;
  options.by = by;
  options.calibration = constants ? &*constants : nullptr;
  const Validation validation = ValidateRuns(ReadMeasuredRuns(runs), options);
  return {ToJson(validation), DrawValidation(validation, {}), {}, {}};
}

Answer RunOf(const std::string& runs, const std::string& row,
             const std::optional<std::string>& calibration) {
  const std::optional<Calibration> constants = ReadIf(calibration);
  ValidateOptions options;
  options.calibration = constants ? &*constants : nullptr;
  const RunReport report = ShowRun(ReadMeasuredRuns(runs), row, options);
  return {ToJson(report), DrawRun(report, {}), {}, {}};
}

// Writes `out` unless it is empty.
Answer CalibrationOf(const std::string& runs, const std::string& out) {
  return Interruptible([&](const std::atomic<bool>& cancel) {
    CalibrateOptions options;
    options.id = out.empty() ? "calibration" : CalibrationId(out);
    options.cancel = &cancel;
    const CalibrationReport report = Calibrate(ReadMeasuredRuns(runs), options);
    if (!out.empty()) WriteFileText(out, CalibrationText(report.calibration));
    return Answer{ToJson(report), DrawCalibration(report, {}), {}, {}};
  });
}

}  // namespace

void RegisterValidation(py::module_& m) {
  using Released = py::call_guard<py::gil_scoped_release>;
  m.def("validate", ValidationOf, py::arg("runs"), py::arg("by"), py::arg("calibration"),
        Released());
  m.def("run", RunOf, py::arg("runs"), py::arg("row"), py::arg("calibration"), Released());
  m.def("calibrate", CalibrationOf, py::arg("runs"), py::arg("out"));
}

}  // namespace restow::python
