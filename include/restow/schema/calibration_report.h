// What a fit of constants to measured runs found. `restow.calibration/1`.
#pragma once

#include <string>
#include <vector>

#include "restow/schema/calibration.h"
#include "restow/schema/validation.h"

namespace restow {

struct FittedConstant {
  std::string name;
  double before = 0, value = 0, spread = 0;
  int rows = 0;
  bool determined = false;  // the runs narrowed it
  std::string remark;       // why not; "" when they did
};

struct CalibrationReport {
  std::string version;
  Calibration calibration;
  std::vector<FittedConstant> constants;  // that any run can change
  std::vector<UnscorableReason> unscorable;
  ErrorFigures memory_before, time_before, memory, time;
};

}  // namespace restow
