// What the engine tells about itself: counters, ring, trace, and what is late.
#include <fmt/format.h>

#include "swap/core.h"

namespace restow::swap {

Stats Core::GetStats() {
  const HostPoolStats pool = pool_->stats();
  Stats stats;
  std::vector<std::pair<std::shared_ptr<const StorageWatch>, std::size_t>> given_up;
  {
    Locked locked(*this);
    stats = stats_;
    stats.units = live_units_;
    stats.slots = live_slots_;
    stats.host_allocations = pool.allocations - pool_allocations_before_;
    stats.pin_failures = pool.pin_failures - pin_failures_before_;
    stats.leaving_bytes = static_cast<std::int64_t>(leaving_bytes_);
    stats.brought_bytes = static_cast<std::int64_t>(brought_bytes_);
    stats.swapped_bytes = static_cast<std::int64_t>(swapped_bytes_);
    stats.prefetch_distance = distance_;
    for (Unit* unit = alive_.front(); unit != nullptr;
         unit = UnitList<&Unit::alive>::After(*unit)) {
      for (const Piece& piece : unit->pieces) {
        if (!piece.memory && piece.watch) given_up.emplace_back(piece.watch, piece.bytes());
      }
    }
  }
  for (const auto& [watch, bytes] : given_up) {
    if (watch->Alive()) stats.held_elsewhere_bytes += static_cast<std::int64_t>(bytes);
  }
  stats.host_reserved_bytes = pool.reserved_bytes;
  stats.host_used_bytes = pool.used_bytes;
  stats.abandoned_bytes = pool.abandoned_bytes;
  return stats;
}

void Core::ResetStats() {
  const HostPoolStats pool = pool_->stats();
  Locked locked(*this);
  stats_ = Stats();
  pool_allocations_before_ = pool.allocations;
  pin_failures_before_ = pool.pin_failures;
}

void Core::CountRecomputedRegion() {
  Locked locked(*this);
  ++stats_.recomputed_regions;
}

std::vector<Transition> Core::Recorded() {
  Locked locked(*this);
  return recorder_.Last();
}

std::vector<std::string> Core::Diagnose(double older_than_s) {
  struct Suspect {
    EventRef event;
    Tier::Ticket ticket = 0;
    std::string text;
  };
  const double now = Now();
  std::vector<Suspect> suspects;
  {
    Locked locked(*this);
    for (Unit* unit = alive_.front(); unit != nullptr;
         unit = UnitList<&Unit::alive>::After(*unit)) {
      const State state = unit->state;
      const bool copying = state == State::kOffloading || state == State::kPrefetching;
      const bool at_tier = unit->ticket != 0 && state != State::kResident;
      if ((!copying && !at_tier) || now - unit->issued_s <= older_than_s) continue;
      suspects.push_back({copying ? unit->last_touch : EventRef(), copying ? 0 : unit->ticket,
                          fmt::format("unit {} of '{}', {} bytes, has been {} for {:.3f} s",
                                      unit->id, schedule_.LabelOf(unit->name), unit->bytes,
                                      Name(state), now - unit->issued_s)});
    }
  }
  std::vector<std::string> late;
  for (const Suspect& suspect : suspects) {
    bool done = false;
    try {
      done =
          suspect.ticket != 0 ? options_.tier->Poll(suspect.ticket) : suspect.event.Done(*device_);
    } catch (const std::exception& error) {
      late.push_back(suspect.text + "; asking for it failed: " + error.what());
      continue;
    }
    if (!done) late.push_back(suspect.text);
  }
  return late;
}

void Core::StartTrace() {
  Locked locked(*this);
  trace_.clear();
  tracing_.store(true);
}

std::vector<TraceEvent> Core::StopTrace() {
  tracing_.store(false);
  while (PollProbe(true)) {
  }
  Locked locked(*this);
  return std::exchange(trace_, {});
}

void Core::Drain() {
  for (;;) {
    Unit* unit = nullptr;
    {
      Locked locked(*this);
      unit = ClaimLeaving();
    }
    if (unit == nullptr) break;
    LetGo(*unit, nullptr);
    Locked locked(*this);
    Unclaim(*unit, locked.trash);
  }
  while (WaitGrave()) {
  }
  while (PollProbe(true)) {
  }
}

}  // namespace restow::swap
