// The scoreboard against measured runs, as text. Plain functions from values to text; no I/O.
#pragma once

#include <string>

#include "restow/report/table.h"
#include "restow/schema/calibration_report.h"
#include "restow/schema/validation.h"

namespace restow {

std::string DrawValidation(const Validation& validation, const TableStyle& style);
std::string DrawRun(const RunReport& run, const TableStyle& style);
std::string DrawCalibration(const CalibrationReport& report, const TableStyle& style);
std::string ValidationCsv(const Validation& validation);  // one row per figure, with a header

}  // namespace restow
