// A row of measured runs as the job file a user would write for it.
#pragma once

#include <string>
#include <vector>

#include "restow/schema/measured_run.h"

namespace restow::validate {

struct JobText {
  std::string yaml;                  // a whole job file; the layout stands under `search`
  std::vector<std::string> assumed;  // what the row leaves open and what was taken
};

// Requires: no rule refuses the run for both quantities (rules.h).
// Errors: kBadInput at the row for words that mean nothing here.
JobText WriteJobText(const MeasuredRun& run);

}  // namespace restow::validate
