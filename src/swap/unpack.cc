// Using: a unit's bytes come back, and those that come next are asked for.
#include <fmt/format.h>

#include "restow/base/error.h"
#include "swap/core.h"

namespace restow::swap {

Slot::Unpacked Core::Unpack(Unit& unit, std::uint32_t piece) {
  const Stream stream = device_->CurrentStream();
  const auto take = [&] {
    return Slot::Unpacked{unit.pieces[piece].memory, unit.From(unit.pieces[piece])};
  };
  Slot::Unpacked got;
  bool ready = false, under_way = false;
  {
    Locked locked(*this);
    ready = ReadyOn(unit, stream);
    if (ready) {
      got = take();
      NoteUsed(unit, locked.trash);
    } else {
      Claim(unit, locked.guard);
    }
  }
  if (!ready) {
    try {
      BringBack(unit, stream);
    } catch (...) {
      {
        Locked locked(*this);
        Unclaim(unit, locked.trash);
      }
      Failed(&Stats::device_errors);
      throw;
    }
    Locked locked(*this);
    got = take();
    NoteUsed(unit, locked.trash);
    Unclaim(unit, locked.trash);
  }
  {
    Locked locked(*this);
    under_way = swapped_bytes_ > 0 || !leaving_.empty() || !graves_.empty() || !waiting_.empty() ||
                !probes_.empty();
  }
  if (under_way) {
    Advance(unit, stream);
    Poll();
  }
  return got;
}

// Nothing needs to be called for `stream` to use the unit.
bool Core::ReadyOn(const Unit& unit, Stream stream) const {
  if (unit.busy || unit.state != State::kResident) return false;
  if (unit.native) return true;
  return unit.home == stream && (!unit.ready || (unit.waited && unit.ready_on == stream));
}

void Core::ThrowLost(const Unit& unit) {
  std::string why;
  {
    const Guard guard(lock_);
    why = stats_.last_error;
  }
  throw Error(
      ErrorCode::kInternal,
      fmt::format("the {} bytes of a saved tensor are gone: their copy to host memory failed "
                  "after the device memory was given up. The device said: {}",
                  unit.bytes, why));
}

// Brings a claimed unit to Resident, with `stream` ordered behind its bytes.
void Core::BringBack(Unit& unit, Stream stream) {
  for (;;) {
    switch (unit.state) {
      case State::kResident:
        if (!unit.native) WaitReady(unit, stream);
        return;
      case State::kPrefetching:
        WaitReady(unit, stream);
        break;
      case State::kOffloading:
      case State::kWriting:
      case State::kSpilling: {
        const double now = Now();
        Locked locked(*this);
        if (unit.state != State::kSpilling) {
          ++stats_.cancelled;
          CountBrought(unit, true);
        }
        Move(unit, Change::kCancel, now);
        break;
      }
      case State::kOnHost:
        IssueIn(unit, stream, true);
        break;
      case State::kOnFile:
        StartFetch(unit, stream, true);
        break;
      case State::kFetching:
      case State::kReading:
        FinishTicket(unit);
        break;
      case State::kLost:
        ThrowLost(unit);
    }
  }
}

void Core::WaitReady(Unit& unit, Stream stream) {
  const bool first = unit.state == State::kPrefetching;
  const bool behind = unit.waited && unit.ready_on == stream;
  if (unit.ready && !behind) {
    if (first) CountStall(unit, stream);
    unit.ready.Order(*device_, stream);
  }
  if (!(stream == unit.home)) {
    for (Piece& piece : unit.pieces) device_->NoteUse(*piece.memory, stream);
  }
  const double now = first ? Now() : 0;
  Locked locked(*this);
  if (first) Move(unit, Change::kUse, now);
  unit.waited = true;
  unit.ready_on = stream;
  if (unit.ready.SeenDone()) unit.ready.reset();
}

// Will `stream` stand still for this copy? Known exactly, later, where events carry time.
void Core::CountStall(Unit& unit, Stream stream) {
  const bool done = unit.ready.Done(*device_);
  Probe probe;
  if (!done && capabilities_.timed_events) {
    probe.stall = true;
    probe.first = pool_->events().Mark(stream);
    probe.second = unit.ready;
  }
  Locked locked(*this);
  if (unit.demanded) ++stats_.demand_loads;
  if (done) return;
  if (probe.stall) {
    probes_.push_back(std::move(probe));
    return;
  }
  ++stats_.stalls;
  if (distance_ < options_.max_prefetch_distance) ++distance_;
}

// Asks for the units that come next, as far as window and distance allow. Hints: errors are
// counted, and the unit is brought back at its use.
void Core::Advance(Unit& used, Stream stream) noexcept {
  for (int asked = 0; asked < 2 * options_.max_prefetch_distance; ++asked) {
    Unit* next = nullptr;
    {
      Locked locked(*this);
      next = NextWanted(used);
      if (next == nullptr) return;
      Hold(*next);
    }
    bool moved = false;
    try {
      moved = MoveCloser(*next, stream);
    } catch (...) {
      Failed(&Stats::device_errors);
    }
    Locked locked(*this);
    Unclaim(*next, locked.trash);
    if (!moved) return;
  }
}

// One step of a claimed unit towards the device. False when it could not be made.
bool Core::MoveCloser(Unit& unit, Stream stream) {
  if (unit.state == State::kOnHost) {
    IssueIn(unit, stream, false);
    return true;
  }
  if (unit.state == State::kOnFile) return StartFetch(unit, stream, false);
  const double now = Now();
  Locked locked(*this);
  if (unit.state != State::kSpilling) {
    CountBrought(unit, true);
    ++stats_.cancelled;
  }
  Move(unit, Change::kCancel, now);
  return true;
}

Core::Wish Core::WishFor(Unit& unit, int seen) const {
  if (unit.kept || unit.manual) return Wish::kNone;
  const bool near = seen < distance_;
  const bool fits = brought_bytes_ == 0 || brought_bytes_ + unit.bytes <= window_;
  switch (unit.state) {
    case State::kOffloading:
    case State::kWriting:
    case State::kOnHost:
    case State::kSpilling:
      if (unit.busy) return Wish::kSeen;
      return near && fits ? Wish::kMove : Wish::kStop;
    case State::kOnFile:
      // Reading takes two steps, so it begins earlier.
      if (unit.busy) return Wish::kSeen;
      return Direct() && !fits ? Wish::kStop : Wish::kMove;
    case State::kPrefetching:
    case State::kFetching:
    case State::kReading:
      return Wish::kSeen;
    default:
      return unit.brought ? Wish::kSeen : Wish::kNone;
  }
}

// The next unit that something should be done for: by the learnt order, else last saved first.
Unit* Core::NextWanted(Unit& used) {
  constexpr std::size_t kFar = 256;
  const bool learnt = schedule_.Knows();
  const int limit = HasTier() ? 2 * distance_ : distance_;
  Unit* before = &used;
  int seen = 0;
  for (std::size_t k = 1; k <= kFar && seen < limit; ++k) {
    Unit* unit = nullptr;
    if (learnt) {
      const NameId name = schedule_.Ahead(k);
      if (name == kNoName) return nullptr;
      unit = schedule_.Live(name);
    } else {
      unit = before = UnitList<&Unit::alive>::Before(*before);
      if (unit == nullptr) return nullptr;
    }
    if (unit == nullptr || unit == &used || unit->slots == 0) continue;
    switch (WishFor(*unit, seen)) {
      case Wish::kNone:
        break;
      case Wish::kSeen:
        ++seen;
        break;
      case Wish::kMove:
        return unit;
      case Wish::kStop:
        return nullptr;
    }
  }
  return nullptr;
}

}  // namespace restow::swap
