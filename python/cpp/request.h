// What a Python call asks about: a job's document and how keyword arguments narrow it.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "restow/io/read.h"

namespace restow::python {

// A job that has been read but not yet judged. Immutable, so any number of threads may share it.
class Source {
 public:
  // A job file, a HyperParallel trainer YAML, or "-". Errors: kBadInput.
  static std::shared_ptr<Source> File(const std::string& path);
  // JSON text; errors call it "<dict>". Relative paths inside start at `folder`.
  static std::shared_ptr<Source> Text(const std::string& json, const std::string& folder);

  Source(Node document, std::string folder)
      : document_(std::move(document)), folder_(std::move(folder)) {}

  // Errors: kBadInput, kUsage.
  Job Read(const ReadOptions& options) const { return ReadJob(document_, folder_, options); }

 private:
  Node document_;
  std::string folder_;
};

struct Request {
  std::shared_ptr<Source> source;
  std::vector<std::string> dimensions;  // "tp=2,4"
  std::optional<std::string> margin, calibration;
  bool strict = false;

  // The job narrowed by `narrowing` alone. Errors: kBadInput, kUsage.
  Job ReadUnder(const std::vector<std::string>& narrowing, bool rules_decide = false) const;
  Job Read() const { return ReadUnder(dimensions); }
};

// A sentence on each field that no reader knew.
std::vector<std::string> Warnings(const Job& job);

void RegisterRequests(pybind11::module_& m);

}  // namespace restow::python
