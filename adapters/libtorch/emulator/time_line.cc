#include "emulator/time_line.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace restow::emulator {

Ticks ToTicks(double seconds) {
  return static_cast<Ticks>(std::llround(seconds * static_cast<double>(kTicksPerSecond)));
}

double ToSeconds(Ticks ticks) {
  return static_cast<double>(ticks) / static_cast<double>(kTicksPerSecond);
}

Ticks TransferTicks(std::uint64_t bytes, double bytes_per_second) {
  const double seconds = static_cast<double>(bytes) / bytes_per_second;
  return static_cast<Ticks>(std::ceil(seconds * static_cast<double>(kTicksPerSecond)));
}

Span Resource::Book(Ticks ready, Ticks length, Ticks horizon) {
  while (!busy_.empty() && busy_.begin()->second <= horizon) busy_.erase(busy_.begin());
  Ticks begin = ready;
  if (length == 0) return {begin, begin};
  auto at = busy_.upper_bound(begin);
  if (at != busy_.begin()) begin = std::max(begin, std::prev(at)->second);
  while (at != busy_.end() && at->first < begin + length) {
    begin = std::max(begin, at->second);
    ++at;
  }
  busy_.emplace_hint(at, begin, begin + length);
  return {begin, begin + length};
}

}  // namespace restow::emulator
