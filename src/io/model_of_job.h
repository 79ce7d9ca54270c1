// The model that a job-like file holds.
#pragma once

#include <string>

#include "restow/io/document.h"
#include "restow/schema/model.h"

namespace restow {

// A model and the bytes it was read from, for the job's digest.
struct ModelRead {
  Model model;
  std::string read;
};

// The `model` of a job file: {hf: PATH}, {preset: NAME} or the fields of `restow.model/1` inline.
ModelRead ReadModelSection(const Node& node, const std::string& base_folder);

// The model of a job file or one of HyperParallel's files. `base_folder` is the file's own.
// Errors: kBadInput with position, kUnsupported naming what cannot be priced.
Model ReadModelOfJob(const Node& document, const std::string& base_folder);

}  // namespace restow
