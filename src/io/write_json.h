// What the writers of reports share. Private to src/io.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "restow/schema/model.h"
#include "restow/schema/report.h"

namespace restow::internal {

using Json = nlohmann::ordered_json;

// A finite number. Errors: kInternal for NaN and infinities, which JSON cannot hold.
Json Number(double value);

// `{"schema": "restow.NAME/1", "version": ...}` without the version where it is empty.
Json Header(const char* name, const std::string& version);
Json JobJson(const std::string& digest, const std::string& name);
Json CalibrationJson(const std::string& id, int rows);

Json LayoutJson(const Layout& layout);
Json CandidateJson(const Candidate& candidate);
// `mode` and, for a plan by layer, runs of equal layers.
Json RecomputeJson(const RecomputePlan& plan);
Json MemoryJson(const MemoryTerms& terms);
Json TimeJson(const TimeTerms& terms);
Json NumbersJson(const std::vector<std::pair<std::string, std::int64_t>>& numbers);
Json ModelJson(const Model& model);

// Two-space indentation and a newline at the end.
std::string Text(const Json& json);

}  // namespace restow::internal
