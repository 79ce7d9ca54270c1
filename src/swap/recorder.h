// The last transitions, in a ring: what a crash report or a watchdog wants to see.
#pragma once

#include <cstdint>
#include <vector>

#include "restow/swap/stats.h"

namespace restow::swap {

// Not thread-safe: the table lock guards it. Never allocates after construction.
class Recorder {
 public:
  explicit Recorder(std::size_t size) : ring_(size == 0 ? 1 : size) {}

  void Add(double time_s, std::uint64_t unit, std::size_t bytes, State from, Change change,
           State to) {
    Transition& entry = ring_[static_cast<std::size_t>(count_ % ring_.size())];
    entry = {count_++, time_s, unit, static_cast<std::int64_t>(bytes), from, change, to};
  }

  // Oldest first.
  std::vector<Transition> Last() const;

 private:
  std::vector<Transition> ring_;
  std::uint64_t count_ = 0;
};

std::string Dump(const std::vector<Transition>& transitions);

}  // namespace restow::swap
