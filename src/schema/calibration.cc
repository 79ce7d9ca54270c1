#include "restow/schema/calibration.h"

#include "restow/base/error.h"

namespace restow {

double Calibration::at(const std::string& name) const {
  const auto found = constants.find(name);
  if (found == constants.end()) {
    throw Error(ErrorCode::kInternal, "calibration '" + id + "' lacks the constant '" + name + "'");
  }
  return found->second.value;
}

double Calibration::Get(const std::string& name, double fallback) const {
  const auto found = constants.find(name);
  return found == constants.end() ? fallback : found->second.value;
}

}  // namespace restow
