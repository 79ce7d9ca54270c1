// Which runs cannot be scored, and why: stated rules over a row's columns.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "restow/schema/measured_run.h"
#include "restow/schema/validation.h"

namespace restow::validate {

// The first rule that keeps the run's figure of that quantity from being scored, or "". Rules that
// look at the price (two kernels fit) are score.cc's.
std::string WhyUnscorable(const MeasuredRun& run, RunQuantity quantity);

// One more run that a reason keeps from being scored.
void CountReason(const std::string& reason, RunQuantity quantity,
                 std::vector<UnscorableReason>* reasons);

// Ids of runs whose memory contradicts another run of equal configuration by more than 10 %.
std::set<std::string> Contradictions(const std::vector<MeasuredRun>& runs);

// The attention kernel was the library's choice and the row does not say which it took.
bool KernelLeftToLibrary(const MeasuredRun& run);

}  // namespace restow::validate
