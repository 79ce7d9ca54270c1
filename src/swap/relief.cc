// What is under way: seen done, waited for, or made to give way.
#include <utility>

#include "swap/core.h"

namespace restow::swap {

// A few questions to the device per call, so that a pack or unpack stays cheap.
void Core::Poll() noexcept {
  while (PollLeaving()) {
  }
  while (PollGrave()) {
  }
  while (PollProbe(false)) {
  }
  while (PollTicket()) {
  }
}

// Gives up the oldest unit whose copy is done; false when there is none.
bool Core::PollLeaving() noexcept {
  Unit* unit = nullptr;
  {
    Locked locked(*this);
    unit = leaving_.front();
    if (unit == nullptr || unit->busy || unit->state != State::kOffloading) return false;
    Hold(*unit);
  }
  bool done = false;
  try {
    done = unit->out.Done(*device_);
  } catch (...) {
    Failed(&Stats::device_errors);
    Distrust(*unit);
  }
  const double now = done ? Now() : 0;
  Locked locked(*this);
  if (done) GiveUp(*unit, Change::kGiveUp, locked.trash, now);
  Unclaim(*unit, locked.trash);
  return done;
}

bool Core::PollGrave() noexcept {
  Grave grave;
  {
    Locked locked(*this);
    if (graves_.empty()) return false;
    grave = std::move(graves_.front());
    graves_.pop_front();
  }
  bool done = false;
  try {
    done = (grave.ticket == 0 || options_.tier->Poll(grave.ticket)) && grave.until.Done(*device_);
  } catch (...) {
    Failed(&Stats::device_errors);  // asked again next time, and waited for at the end
  }
  if (!done) {
    Locked locked(*this);
    graves_.push_front(std::move(grave));
    return false;
  }
  {
    Locked locked(*this);
    graves_.push_front(std::move(grave));
  }
  return WaitGrave();
}

// Ends the oldest grave, waiting for it. False when there is none.
bool Core::WaitGrave() noexcept {
  Grave grave;
  {
    Locked locked(*this);
    if (graves_.empty()) return false;
    grave = std::move(graves_.front());
    graves_.pop_front();
  }
  if (grave.ticket != 0) {
    try {
      const Tier::Extent extent = options_.tier->Wait(grave.ticket);
      if (grave.ticket_writes) options_.tier->Release(extent);
    } catch (...) {
      // A write nobody needs any more, or a read for a unit that is gone.
    }
  }
  bool over = true;
  if (!grave.memory.empty()) {
    // A block carries its event into the pool; device memory must wait here.
    try {
      grave.until.HostWait(*device_);
    } catch (...) {
      Failed(&Stats::device_errors);
      over = Settle(grave.stream);
    }
  }
  if (over) {
    if (grave.block) pool_->Give(std::move(grave.block), std::move(grave.until));
    return true;
  }
  if (grave.block) pool_->Abandon(grave.block);
  Quarantine(std::move(grave.memory));
  return true;
}

bool Core::PollProbe(bool wait) noexcept {
  Probe probe;
  {
    Locked locked(*this);
    if (probes_.empty()) return false;
    probe = std::move(probes_.front());
    probes_.pop_front();
  }
  try {
    if (wait) {
      probe.first.HostWait(*device_);
      probe.second.HostWait(*device_);
    }
    if (probe.first.Done(*device_) && probe.second.Done(*device_)) {
      Resolve(probe);
      return true;
    }
  } catch (...) {
    Failed(&Stats::device_errors);
    return true;  // a figure is lost, nothing else
  }
  Locked locked(*this);
  probes_.push_front(std::move(probe));
  return false;
}

void Core::Resolve(const Probe& probe) noexcept {
  const bool timed = capabilities_.timed_events;
  const double first = timed && probe.first ? probe.first.Seconds(*device_) : probe.event.begin_s;
  const double second = timed ? probe.second.Seconds(*device_) : Now();
  Locked locked(*this);
  if (!probe.stall) {
    trace_.push_back(probe.event);
    trace_.back().begin_s = first;
    trace_.back().end_s = second;
    return;
  }
  if (second <= first) return;  // the copy was there in time
  ++stats_.stalls;
  stats_.stall_s += second - first;
  if (distance_ < options_.max_prefetch_distance) ++distance_;
}

// Ends the oldest read or write of the tier that has finished.
bool Core::PollTicket() noexcept {
  Unit* unit = nullptr;
  {
    Locked locked(*this);
    unit = waiting_.front();
    if (unit == nullptr) {
      unit = leaving_.front();
      if (unit == nullptr || unit->state != State::kWriting) return false;
    }
    if (unit->busy) return false;
    Hold(*unit);
  }
  const bool done = options_.tier->Poll(unit->ticket);
  if (done) {
    try {
      FinishTicket(*unit);
    } catch (...) {
      // Counted; a failed read is tried again at the unit's use, where it can be reported.
    }
  }
  Locked locked(*this);
  Unclaim(*unit, locked.trash);
  return done;
}

// Claims the oldest unit on its way out that nobody has claimed.
Unit* Core::ClaimLeaving() {
  Unit* unit = leaving_.front();
  while (unit != nullptr && unit->busy) unit = UnitList<&Unit::leaving>::After(*unit);
  if (unit != nullptr) Hold(*unit);
  return unit;
}

// Back-pressure: while more than a window is on its way out, the oldest goes.
void Core::RelieveWindow(Stream stream) noexcept {
  for (;;) {
    Unit* oldest = nullptr;
    {
      Locked locked(*this);
      const bool one = leaving_.front() == leaving_.back();
      if (leaving_bytes_ <= window_ || one) return;
      oldest = ClaimLeaving();
      if (oldest == nullptr) return;  // all in other threads' hands, which do the same
    }
    const Stream* order = options_.when_full == WhenFull::kOrder ? &stream : nullptr;
    LetGo(*oldest, order);
    Locked locked(*this);
    Unclaim(*oldest, locked.trash);
  }
}

// Gives up the memory of a claimed unit that is on its way out. With `stream`, and memory that is
// freed in that stream's order, the stream is made to wait; else the host waits. False when the
// copy failed: the unit is kept.
bool Core::LetGo(Unit& unit, const Stream* stream) noexcept {
  if (unit.state == State::kWriting) {
    try {
      FinishTicket(unit);
    } catch (...) {
      return false;
    }
    return unit.state == State::kOnFile;
  }
  bool waited = false;
  try {
    bool ordered = stream != nullptr;
    for (const Piece& piece : unit.pieces) {
      ordered = ordered && piece.memory->FreesInOrderOf(*stream);
    }
    if (ordered) {
      unit.out.Order(*device_, *stream);
    } else if (!unit.out.Done(*device_)) {
      waited = true;
      unit.out.HostWait(*device_);
    }
  } catch (...) {
    Failed(&Stats::device_errors);
    Distrust(unit);
    return false;
  }
  const double now = Now();
  Locked locked(*this);
  if (waited) ++stats_.host_waits;
  GiveUp(unit, Change::kGiveUp, locked.trash, now);
  return true;
}

// The copy out of a claimed unit failed while the device memory was still held: it is kept.
void Core::Distrust(Unit& unit) noexcept {
  const bool settled = Settle(unit.copied_on);
  Locked locked(*this);
  Move(unit, Change::kCancel, 0);
  unit.kept = true;
  if (!settled) {
    for (const Piece& piece : unit.pieces) quarantine_.push_back(piece.memory);
    pool_->Abandon(std::exchange(unit.block, HostBlock()));
    --resident_blocks_;
  }
  unit.out.reset();
  unit.last_touch.reset();
  LetBlockGo(unit, locked.trash);
}

// Device memory for an allocation that failed at a use: copies out are waited for, and what was
// prefetched but not used is given up again. False when nothing could be freed.
bool Core::FreeDeviceMemory(Stream) noexcept {
  bool freed = false;
  for (;;) {
    Unit* unit = nullptr;
    {
      Locked locked(*this);
      unit = ClaimLeaving();
    }
    if (unit == nullptr) break;
    freed |= LetGo(*unit, nullptr);
    Locked locked(*this);
    Unclaim(*unit, locked.trash);
  }
  while (TakeBackOne()) freed = true;
  while (WaitGrave()) freed = true;
  return freed;
}

bool Core::TakeBackOne() noexcept {
  Unit* unit = nullptr;
  {
    Locked locked(*this);
    for (unit = alive_.front(); unit != nullptr; unit = UnitList<&Unit::alive>::After(*unit)) {
      if (unit->state == State::kPrefetching && !unit->busy && !unit->manual) break;
    }
    if (unit == nullptr) return false;
    Hold(*unit);
  }
  bool done = true;
  try {
    unit->ready.HostWait(*device_);
  } catch (...) {
    Failed(&Stats::device_errors);
    done = false;
  }
  const double now = Now();
  Locked locked(*this);
  if (done) GiveUp(*unit, Change::kTakeBack, locked.trash, now);
  Unclaim(*unit, locked.trash);
  return done;
}

}  // namespace restow::swap
