#include "swap/recorder.h"

#include <fmt/format.h>

#include <algorithm>

namespace restow::swap {

std::vector<Transition> Recorder::Last() const {
  const std::uint64_t size = ring_.size();
  const std::uint64_t kept = std::min(count_, size);
  std::vector<Transition> last;
  last.reserve(static_cast<std::size_t>(kept));
  for (std::uint64_t i = count_ - kept; i < count_; ++i) {
    last.push_back(ring_[static_cast<std::size_t>(i % size)]);
  }
  return last;
}

std::string ToString(const Transition& t) {
  return fmt::format("#{} {:.6f} s unit {} ({} B): {} -- {} --> {}", t.number, t.time_s, t.unit,
                     t.bytes, Name(t.from), Name(t.change), Name(t.to));
}

std::string Dump(const std::vector<Transition>& transitions) {
  std::string text = fmt::format("last {} transitions of units:\n", transitions.size());
  for (const Transition& transition : transitions) text += ToString(transition) + "\n";
  return text;
}

}  // namespace restow::swap
