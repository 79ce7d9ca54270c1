// Tables of measured runs as CSV (RFC 4180: commas, quotes doubled inside quotes, one header row).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "restow/schema/measured_run.h"

namespace restow {

// Columns may stand in any order; unknown ones are kept, missing ones read as empty. An id is
// needed and stands once. Errors: kBadInput with file, line and column for a file that is no such
// table: no `id` column, a ragged row, an unclosed quote, a switch without '='.
std::vector<MeasuredRun> ReadMeasuredRuns(const std::string& path);
std::vector<MeasuredRun> ParseMeasuredRuns(std::string_view text, const std::string& name);

// The columns a price can use, in the order of a template.
const std::vector<std::string>& MeasuredRunColumns();

}  // namespace restow
