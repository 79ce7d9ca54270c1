// Saving: a storage becomes a unit, and its copy to host is issued.
#include <mutex>
#include <utility>

#include "swap/core.h"

namespace restow::swap {

Packed Core::Pack(RegionState& region, const Storage& storage, Decision decision) {
  Packed packed;
  Unit* full = nullptr;  // a fused unit to be sent
  bool to_keep = false, under_way = false;
  keys_.Prefetch(KeyTable::Hash(storage.identity));
  {
    const std::lock_guard<TableLock> guard(lock_);
    under_way = !leaving_.empty() || !graves_.empty() || !waiting_.empty() || !probes_.empty();
    const KeyTable::Found found =
        storage.identity != 0 ? keys_.Find(KeyOf(storage)) : KeyTable::Found();
    if (found.unit != nullptr) {
      packed = {found.unit, found.piece, Reason::kShared};
      to_keep = decision == Decision::kKeep && !found.unit->kept;
    } else {
      const bool small = storage.bytes < region.min_bytes && storage.bytes > 0;
      if (region.fuse && small && decision != Decision::kKeep) {
        packed = AddToBatch(region, storage, full);
      } else {
        Unit& unit = NewUnit(region);
        AddPiece(unit, storage);
        packed = {&unit, 0, Decide(region, unit, decision)};
        unit.kept = packed.reason != Reason::kSwapped && packed.reason != Reason::kWaitsForLaunch;
        if (!unit.kept) Enlist(region, unit);
        if (packed.reason == Reason::kSwapped) Hold(unit);
        if (packed.reason == Reason::kKeptLastRegion) ++stats_.kept_last_region;
        if (packed.reason == Reason::kKeptWindowFull) ++stats_.kept_window_full;
      }
    }
    ++live_slots_;
    ++packed.unit->slots;
  }
  if (to_keep) Keep(*packed.unit, storage);
  if (packed.reason == Reason::kSwapped) packed.reason = SendOut(*packed.unit, Stream());
  if (full != nullptr) CloseBatch(*full, region.manual);
  if (under_way) Poll();
  return packed;
}

Reason Core::Decide(RegionState& region, Unit& unit, Decision decision) const {
  if (unit.bytes == 0) return Reason::kKeptEmpty;
  if (decision == Decision::kKeep) return Reason::kKeptByCaller;
  if (decision == Decision::kAutomatic && unit.bytes < region.min_bytes) {
    return Reason::kKeptSmall;
  }
  if (region.manual) return Reason::kWaitsForLaunch;
  // A last region that is larger than the window would raise the peak if it were kept.
  const bool last = unit.invocation->last && unit.invocation->bytes <= window_;
  if (options_.keep_last_region && last) return Reason::kKeptLastRegion;
  const bool full = !leaving_.empty() && leaving_bytes_ + unit.bytes > window_;
  if (full && options_.when_full == WhenFull::kKeep) return Reason::kKeptWindowFull;
  return Reason::kSwapped;
}

// Small storages gather in one unit until it is large enough for a copy of its own.
Packed Core::AddToBatch(RegionState& region, const Storage& storage, Unit*& full) {
  if (region.batch == nullptr) {
    region.batch = &NewUnit(region);
    region.batch->open_in = &region;
    Enlist(region, *region.batch);
  }
  Unit& unit = *region.batch;
  const auto piece = static_cast<std::uint32_t>(unit.pieces.size());
  // A piece begins where any element type may.
  unit.bytes =
      (unit.bytes + HostPool::kAlignment - 1) / HostPool::kAlignment * HostPool::kAlignment;
  AddPiece(unit, storage);
  if (unit.bytes >= static_cast<std::size_t>(options_.fused_bytes.value())) {
    region.batch = nullptr;
    unit.open_in = nullptr;
    Hold(unit);
    full = &unit;
  }
  return {&unit, piece, Reason::kFused};
}

// Requires: the caller claimed the unit.
void Core::CloseBatch(Unit& unit, bool manual) noexcept {
  if (manual) {
    Locked locked(*this);
    Unclaim(unit, locked.trash);
    return;
  }
  const Reason reason = SendOut(unit, Stream());
  Locked locked(*this);
  if (reason == Reason::kSwapped) ++stats_.fused_batches;
}

// Issues the copy of a claimed unit and ends the claim. Never throws: what cannot be sent is kept.
Reason Core::SendOut(Unit& unit, Stream stream) {
  Reason reason = Reason::kKeptDeviceError;
  try {
    stream = device_->CurrentStream();
    reason = unit.to_file && Direct() && unit.pieces.size() == 1 ? StartDirectWrite(unit, stream)
                                                                 : IssueOut(unit, stream);
  } catch (...) {
    Failed(&Stats::device_errors);
  }
  {
    Locked locked(*this);
    if (reason != Reason::kSwapped) unit.kept = true;
    if (reason == Reason::kKeptHostFull) ++stats_.kept_host_full;
    Unclaim(unit, locked.trash);
  }
  if (reason == Reason::kSwapped) RelieveWindow(stream);
  if (HasTier()) SpillAhead();
  return reason;
}

// A storage of which any view is to be kept stays on the device.
void Core::Keep(Unit& unit, const Storage& storage) {
  Locked locked(*this);
  Claim(unit, locked.guard);
  unit.kept = true;
  const bool alone = unit.pieces.size() == 1;
  if (unit.state == State::kSpilling) Move(unit, Change::kCancel, 0);
  if (unit.state == State::kOffloading || unit.state == State::kWriting) {
    Move(unit, Change::kCancel, 0);
    ++stats_.cancelled;
  } else if (alone && (unit.state == State::kOnHost || unit.state == State::kOnFile)) {
    // The caller holds the storage, so it is alive: its memory is as good as ours was.
    Move(unit, Change::kAdopt, 0);
    unit.pieces.front().memory = storage.memory;
    unit.native = true;
  }
  Unclaim(unit, locked.trash);
}

}  // namespace restow::swap
