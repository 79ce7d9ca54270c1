#include "cpp/request.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <filesystem>
#include <utility>

namespace restow::python {
namespace {

namespace py = pybind11;

// What can be said of a job before it is planned.
struct Summary {
  std::string name, digest;
  std::vector<std::string> warnings;
};

Summary Inspect(const Request& request) {
  const Job job = request.Read();
  return {job.name, job.digest, Warnings(job)};
}

}  // namespace

std::shared_ptr<Source> Source::File(const std::string& path) {
  // As ReadJob does: relative paths inside a file start at its folder.
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return std::make_shared<Source>(ReadDocument(path), folder.empty() ? "." : folder);
}

std::shared_ptr<Source> Source::Text(const std::string& json, const std::string& folder) {
  return std::make_shared<Source>(ParseDocument(json, Language::kJson, "<dict>"), folder);
}

Job Request::ReadUnder(const std::vector<std::string>& narrowing, bool rules_decide) const {
  ReadOptions options;
  options.strict = strict;
  options.rules_decide = rules_decide;
  options.dimensions = narrowing;
  options.margin = margin;
  options.calibration_path = calibration;
  return source->Read(options);
}

std::vector<std::string> Warnings(const Job& job) {
  std::vector<std::string> warnings;
  for (const FieldNote& note : UnknownFields(job)) {
    warnings.push_back(
        fmt::format("{}: {}", note.path, note.reason.empty() ? "not known" : note.reason));
  }
  return warnings;
}

void RegisterRequests(py::module_& m) {
  using Released = py::call_guard<py::gil_scoped_release>;
  py::class_<Source, std::shared_ptr<Source>>(m, "Source")
      .def_static("file", Source::File, py::arg("path"), Released())
      .def_static("text", Source::Text, py::arg("json"), py::arg("folder"), Released());
  py::class_<Request>(m, "Request")
      .def(py::init([](std::shared_ptr<Source> source, std::vector<std::string> dimensions,
                       std::optional<std::string> margin, std::optional<std::string> calibration,
                       bool strict) {
             return Request{std::move(source), std::move(dimensions), std::move(margin),
                            std::move(calibration), strict};
           }),
           py::arg("source").none(false), py::arg("dimensions"), py::arg("margin"),
           py::arg("calibration"), py::arg("strict"));
  py::class_<Summary>(m, "Summary")
      .def_readonly("name", &Summary::name)
      .def_readonly("digest", &Summary::digest)
      .def_readonly("warnings", &Summary::warnings);
  m.def("inspect", Inspect, py::arg("request"), Released());
  m.def("merge_dimensions", MergeDimensions, py::arg("dimensions"), py::arg("over"));
}

}  // namespace restow::python
