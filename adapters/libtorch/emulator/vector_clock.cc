#include "emulator/vector_clock.h"

#include <algorithm>

namespace restow::emulator {

Epoch VectorClock::Tick(Actor actor) {
  if (counts_.size() <= actor) counts_.resize(actor + 1, 0);
  return {actor, ++counts_[actor]};
}

Epoch VectorClock::Last(Actor actor) const {
  return {actor, actor < counts_.size() ? counts_[actor] : 0};
}

void VectorClock::Join(const VectorClock& other) {
  if (counts_.size() < other.counts_.size()) counts_.resize(other.counts_.size(), 0);
  for (std::size_t i = 0; i < other.counts_.size(); ++i) {
    counts_[i] = std::max(counts_[i], other.counts_[i]);
  }
}

bool VectorClock::Covers(Epoch epoch) const {
  return epoch.count == 0 || (epoch.actor < counts_.size() && counts_[epoch.actor] >= epoch.count);
}

}  // namespace restow::emulator
