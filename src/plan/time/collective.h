// Seconds of collectives. Source: time-model.md section 2, "Collectives" and "EP".
#pragma once

#include "plan/time/group.h"
#include "plan/time/machine.h"

namespace restow::plan {

// How a ring over a group runs: bytes per second, and seconds that do not depend on the bytes.
struct RingPath {
  double rate = 0;
  double fixed = 0;   // start and hops of one collective
  double start = 0;   // of that, the start
  double share = 0;   // (size-1)/size; 0 for a group of one
};

// A group inside one scale-up domain runs at its rate (on a full mesh a group of g uses g-1 of
// size-1 links). Beyond it, each level crossed limits the ring to its bandwidth times the members
// inside one domain of the level below, since each brings its own port.
RingPath PathOf(const Machine::Constants& k, const RankGroup& group);

// All-gather or reduce-scatter of a whole buffer of `bytes`; an all-reduce is two of them.
inline double GatherSeconds(const RingPath& path, double bytes) {
  return path.share == 0 ? 0.0 : bytes * path.share / path.rate + path.fixed;
}
double GatherSeconds(const Machine::Constants& k, double bytes, const RankGroup& group);

// Each rank sends `bytes` spread over the group. `copies` equal copies of a token cross to another
// domain once: of `copies` destinations drawn over n domains, (n-1)(1-(1-1/n)^copies) are remote.
double AllToAllSeconds(const Machine::Constants& k, double bytes, const RankGroup& group,
                       double copies);

// Activations to the next stage: the slowest link that neighbours cross, one port each.
RingPath NeighbourPath(const Machine::Constants& k, const RankGroup& pipeline);

}  // namespace restow::plan
