// Modelled time: when a piece of work starts and ends on a resource that does one thing at a time.
#pragma once

#include <cstdint>
#include <map>

namespace restow::emulator {

// Picoseconds. Integers, so that sums do not depend on their order and repeat to the last digit.
using Ticks = std::int64_t;
inline constexpr Ticks kTicksPerSecond = 1'000'000'000'000;

Ticks ToTicks(double seconds);
double ToSeconds(Ticks ticks);
// Time for `bytes` at `bytes_per_second`, rounded up.
Ticks TransferTicks(std::uint64_t bytes, double bytes_per_second);

struct Span {
  Ticks begin = 0;
  Ticks end = 0;
};

// A compute unit or one direction of a host link. Work takes the first gap that is long enough, so
// that work issued early but ready late does not hold up what is ready before it.
class Resource {
 public:
  // Books `length` ticks, not before `ready`. `horizon`: nothing will ask for a time before it.
  Span Book(Ticks ready, Ticks length, Ticks horizon);
  void Clear() { busy_.clear(); }

 private:
  std::map<Ticks, Ticks> busy_;  // begin -> end, disjoint
};

}  // namespace restow::emulator
