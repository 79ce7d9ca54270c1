// A small event simulation of pipeline schedules over unequal stages and chunks: what the closed
// forms of the time model are checked against.
#pragma once

#include <vector>

#include "restow/base/quantity.h"
#include "restow/schema/strategy.h"

namespace restow::plan {

// Seconds per micro-batch, [stage][chunk]. Chunk c of stage r is virtual stage c·stages + r.
struct PipelineWork {
  std::vector<std::vector<Seconds>> forward, backward;

  int stages() const { return static_cast<int>(forward.size()); }
  int chunks() const { return static_cast<int>(forward.front().size()); }
};

// Time from the first forward to the last backward. Each stage runs its forwards and backwards in
// the schedule's order and waits for what they need; sending takes no time.
// GPipe: all forwards, then all backwards. 1F1B, and interleaved 1F1B in groups of as many
// micro-batches as there are stages: Narayanan et al., arXiv:2104.04473, section 2.2.
// Requires: one chunk per stage unless interleaved; micro_batches >= 1.
Seconds SimulatePipeline(Schedule schedule, const PipelineWork& work, int micro_batches);

}  // namespace restow::plan
