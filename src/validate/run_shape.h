// What a run's columns and switches say of its layers, their split and their recompute.
// Errors: kBadInput at the row for words that mean nothing here, so that no row is priced as
// something it is not.
#pragma once

#include <string>
#include <vector>

#include "restow/schema/measured_run.h"

namespace restow::validate {

struct RunShape {
  int layers = 0;
  int experts = 0, first_dense = 0, every = 1;  // every n-th layer behind the dense ones is sparse
  int window = 0;
  bool alternate = false;  // every second layer sees everything
};
RunShape ShapeOf(const MeasuredRun& run);

// Layers of each virtual stage where the run states them, else empty.
std::vector<int> StatedChunks(const MeasuredRun& run);
int PipelineStages(const MeasuredRun& run);
int VirtualStages(const MeasuredRun& run);  // chunks per stage

// Modules of "selective a,b [c]", or of the recipe in the notes; empty for other modes.
std::vector<std::string> RecomputeModules(const MeasuredRun& run);
bool UnfusedAttention(const MeasuredRun& run);
// A switch that is stated and 1.
bool On(const MeasuredRun& run, const std::string& name);

}  // namespace restow::validate
