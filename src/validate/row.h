// Columns of a measured run as numbers and words.
#pragma once

#include <optional>
#include <string>

#include "restow/schema/measured_run.h"

namespace restow::validate {

// A column's number; empty when it holds none.
std::optional<double> Number(const MeasuredRun& run, const std::string& column);
// The same as a whole number, and `fallback` without one.
int Whole(const MeasuredRun& run, const std::string& column, int fallback);
int WholeSwitch(const MeasuredRun& run, const std::string& name, int fallback);

// Case-insensitive.
bool Contains(const std::string& text, const std::string& part);
bool StartsWith(const std::string& text, const std::string& part);

// Devices of the run: the column, or the product of its degrees. 0: not known.
int Devices(const MeasuredRun& run);
int DataParallel(const MeasuredRun& run);
// Sequences of a pass; see rules.h for when 1 is assumed. 0: not known.
int MicroBatch(const MeasuredRun& run);
// Sequences of a step; one pass per replica where the table leaves it out. 0: not known.
int GlobalBatch(const MeasuredRun& run);
// Preset named by the hardware column, or "".
std::string DeviceOf(const MeasuredRun& run);

}  // namespace restow::validate
