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

// Requires: no rule for both quantities refuses the run (rules.h).
JobText WriteJobText(const MeasuredRun& run);

// Modules of "selective a,b [c]"; empty for other modes.
std::vector<std::string> RecomputeModules(const MeasuredRun& run);
// Figures of the run's model that conventions and sweeps need.
int VirtualStages(const MeasuredRun& run);
bool UnfusedAttention(const MeasuredRun& run);

}  // namespace restow::validate
