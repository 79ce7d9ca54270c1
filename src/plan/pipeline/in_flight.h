// What a stage holds at once: saved activations of the chunks whose forward has run and whose
// backward has not, and where in its schedule that is most.
#pragma once

#include <vector>

#include "restow/base/quantity.h"
#include "restow/schema/strategy.h"

namespace restow::plan {

// Bytes of one chunk for one micro-batch.
struct ChunkBytes {
  Bytes saved;           // from its forward to its backward
  Bytes forward_extra;   // beside `saved`, while its forward runs
  Bytes backward_extra;  // beside everything saved, while its backward runs

  friend bool operator==(const ChunkBytes&, const ChunkBytes&) = default;
};

// A moment at which a stage can peak: what is alive (the running chunk's own micro-batch included)
// and what runs.
struct Moment {
  std::vector<int> alive;  // micro-batches alive per chunk
  int chunk = 0;           // that runs
  bool forward = true;
};

struct PipelineShape {
  Schedule schedule = Schedule::k1F1B;
  int pp = 1;
  int vpp = 1;
  int micro_batches = 1;
  int group = 0;  // micro-batches in a group of the interleaved schedule; 0: pp

  friend bool operator==(const PipelineShape&, const PipelineShape&) = default;
};

// One event of a stage: forward or backward of a chunk's micro-batch.
struct Event {
  bool forward = true;
  int chunk = 0;
  int micro_batch = 0;
};

// The order in which `stage` runs its forwards and backwards. GPipe: all forwards, then all
// backwards. 1F1B and interleaved 1F1B as Megatron-LM's schedules run them (Narayanan et al.,
// arXiv:2104.04473, section 2.2): warm-up of pp-1-stage forwards, with chunks
// 2(pp-1-stage) + (vpp-1)·group, then one forward and one backward in turn.
std::vector<Event> StageEvents(const PipelineShape& shape, int stage);

// The moments of `stage` at which no other moment running the same chunk in the same direction has
// as much alive in every chunk. Few, and the same for every size of the chunks.
std::vector<Moment> PeakMoments(const PipelineShape& shape, int stage);

// The same pipeline with as few micro-batches as have the same moments on every stage: shapes that
// differ only in repetitions become equal, as keys of a table.
PipelineShape WithoutRepetitions(const PipelineShape& shape);

struct InFlightPeak {
  Bytes bytes;
  Moment moment;
};

// The largest sum over the moments. Ties keep the first.
// Requires: chunks.size() == vpp.
InFlightPeak PeakInFlight(const std::vector<Moment>& moments,
                          const std::vector<ChunkBytes>& chunks);

}  // namespace restow::plan
