// Models inside job files.
#include "io/model_reader.h"

namespace restow {

Model ReadModelOfJob(const Node& document, const std::string& base_folder) {
  static_cast<void>(base_folder);
  ThrowUnsupported("reading the model of a job file is not available in this version",
                   document.where);
}

}  // namespace restow
