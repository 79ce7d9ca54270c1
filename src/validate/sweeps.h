// Does the planner rank layouts as the measurements do?
#pragma once

#include <vector>

#include "validate/score.h"

namespace restow::validate {

// Kendall's tau over pairs whose second values differ by more than `margin` of the smaller. 1 where
// no pair does.
double KendallTau(const std::vector<double>& a, const std::vector<double>& b, double margin);

// Runs of one source, device, model, sequence, device count, dtype and software, of six or more,
// with their time scored. Compared in seconds per sequence.
std::vector<Sweep> FindSweeps(const std::vector<ScoredRun>& scored);

}  // namespace restow::validate
