// The lines below the table of `plan`. Private to src/report.
#pragma once

#include <string>

#include "restow/report/table.h"

namespace restow::report {

// What was searched, which rule refused how much, how the current setting compares, what takes less
// memory, and where the figures come from.
std::string PlanNotes(const PlanReport& report, const TableStyle& style);

}  // namespace restow::report
