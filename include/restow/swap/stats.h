// What the engine has counted, its last transitions, and what ran when.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "restow/swap/device.h"
#include "restow/swap/state.h"

namespace restow::swap {

struct Stats {
  // Since the last reset.
  std::int64_t bytes_out = 0, bytes_in = 0;  // copied to and from host memory or the tier
  std::int64_t moved_units = 0;
  std::int64_t stalls = 0;  // uses that had to wait for their copy
  double stall_s = 0;       // how long; 0 where the device's events carry no time
  std::int64_t host_allocations = 0;
  std::int64_t file_bytes = 0;  // written to the tier below
  std::int64_t recomputed_regions = 0;
  std::int64_t cancelled = 0;         // used before their copy out had finished
  std::int64_t demand_loads = 0;      // used before their copy in was even asked for
  std::int64_t host_waits = 0;        // times a thread blocked for a copy
  std::int64_t kept_host_full = 0;    // not moved: host memory was at its cap, or refused
  std::int64_t kept_window_full = 0;  // not moved: the window was full (WhenFull::kKeep)
  std::int64_t kept_last_region = 0;
  std::int64_t pin_failures = 0;  // host memory that could not be pinned
  std::int64_t device_errors = 0, tier_errors = 0;
  std::int64_t fused_batches = 0;

  // Now.
  std::int64_t units = 0, slots = 0;
  std::int64_t host_reserved_bytes = 0, host_used_bytes = 0;
  std::int64_t held_elsewhere_bytes = 0;  // given up, but still held by somebody else
  std::int64_t leaving_bytes = 0;         // device memory held while it is copied out
  std::int64_t brought_bytes = 0;         // device memory brought back ahead of or for its use
  std::int64_t swapped_bytes = 0;         // not on the device
  std::int64_t abandoned_bytes = 0;       // host memory never used again, after a device error
  int prefetch_distance = 0;              // units asked for ahead of their use

  std::string last_error;  // of a device or a tier; the engine went on without
};

// One change of one unit.
struct Transition {
  std::uint64_t number = 0;  // counts up; gaps have left the ring
  double time_s = 0;
  std::uint64_t unit = 0;
  std::int64_t bytes = 0;
  State from = State::kResident;
  Change change = Change::kOffload;
  State to = State::kResident;
};

std::string ToString(const Transition& transition);

// One copy, for a trace. Times are of the device where its events carry time, else of the host,
// from issue to being seen done.
struct TraceEvent {
  Direction direction = Direction::kOut;
  std::uint64_t unit = 0;
  std::string site;
  std::int64_t bytes = 0;
  double begin_s = 0, end_s = 0;
};

}  // namespace restow::swap
