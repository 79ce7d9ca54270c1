// Who has seen what: the order that launches, events and waits establish between actors.
//
// An actor is the host or one stream. Each access carries the epoch of its actor; an access is
// ordered before a later one when the later one's clock has reached that epoch. What no chain of
// waits has ordered may run in either order on a real device, however it happened to run here.
// Source: Flanagan and Freund, "FastTrack", PLDI 2009, sections 2 and 3 (epochs and clocks).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace restow::emulator {

// 0 is the host: all host threads together, in the order in which they call the emulator.
using Actor = std::uint32_t;
inline constexpr Actor kHost = 0;

struct Epoch {
  Actor actor = kHost;
  std::uint64_t count = 0;
};

class VectorClock {
 public:
  // Starts the next epoch of `actor` and returns it.
  Epoch Tick(Actor actor);
  // The epoch `actor` is in, as far as this clock has seen.
  Epoch Last(Actor actor) const;
  // Afterwards this clock has seen whatever either had.
  void Join(const VectorClock& other);
  bool Covers(Epoch epoch) const;

 private:
  // Counts by actor; actors beyond the end have count 0.
  std::vector<std::uint64_t> counts_;
};

}  // namespace restow::emulator
