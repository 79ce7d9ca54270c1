// The page that says how well the planner does against measured runs. Plain functions from values
// to text; no I/O.
#pragma once

#include <map>
#include <string>

#include "restow/schema/validation.h"

namespace restow {

// Predicted against measured on logarithmic axes, one dot a run; an SVG document.
std::string ScatterSvg(const Validation& validation, RunQuantity quantity);

// Markdown. `explanations`: what a miss was traced to, by run id. `table`: how the page calls the
// table of runs. The pictures are named NAME-memory.svg and NAME-time.svg beside the page.
std::string FidelityPage(const Validation& validation,
                         const std::map<std::string, std::string>& explanations,
                         const std::string& table, const std::string& name);

}  // namespace restow
