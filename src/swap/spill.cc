// The tier below: host blocks written to it and read from it, or device memory itself where the
// host can address it. A failed write keeps the bytes where they are.
#include <fmt/format.h>

#include "restow/base/error.h"
#include "swap/core.h"

namespace restow::swap {

// A block for a claimed unit; units that can do without theirs give way.
std::optional<HostBlock> Core::TakeBlock(std::size_t bytes, const Unit* wanted_by) noexcept {
  if (bytes > pool_->cap()) return std::nullopt;
  for (;;) {
    std::optional<HostBlock> block;
    try {
      block = pool_->Take(bytes);
    } catch (...) {
      Failed(&Stats::device_errors);
    }
    if (block || !FreeHostMemory(wanted_by)) return block;
  }
}

// One block less in use. False when there is none to spare.
bool Core::FreeHostMemory(const Unit* wanted_by) noexcept {
  if (ReclaimBlock()) return true;
  return HasTier() && SpillOne(wanted_by);
}

// The host copy of a unit that is back on the device.
bool Core::ReclaimBlock() noexcept {
  Locked locked(*this);
  if (resident_blocks_ == 0) return false;
  for (Unit* unit = alive_.front(); unit != nullptr; unit = UnitList<&Unit::alive>::After(*unit)) {
    if (unit->busy || unit->state != State::kResident || !unit->block || unit->ticket != 0) {
      continue;
    }
    LetBlockGo(*unit, locked.trash);
    return true;
  }
  return false;
}

// A unit whose write is under way, else the one that has been on the host longest: in a backward
// that runs in reverse it is needed last.
Unit* Core::ClaimToSpill(const Unit* wanted_by) {
  for (Unit* first : {waiting_.front(), hosted_.front()}) {
    for (Unit* unit = first; unit != nullptr; unit = UnitList<&Unit::hosted>::After(*unit)) {
      const bool fits = unit->state == State::kSpilling || unit->state == State::kOnHost;
      if (unit->busy || unit == wanted_by || !fits) continue;
      Hold(*unit);
      return unit;
    }
  }
  return nullptr;
}

bool Core::SpillOne(const Unit* wanted_by) noexcept {
  Unit* unit = nullptr;
  {
    Locked locked(*this);
    unit = ClaimToSpill(wanted_by);
  }
  if (unit == nullptr) return false;
  if (unit->state == State::kOnHost) StartSpill(*unit);
  if (unit->state == State::kSpilling) {
    try {
      FinishTicket(*unit);
    } catch (...) {
      // A write that fails does not throw.
    }
  }
  const bool freed = unit->state == State::kOnFile;
  Locked locked(*this);
  Unclaim(*unit, locked.trash);
  return freed;
}

// Begins to write a claimed unit's host block. False when that is not possible.
bool Core::StartSpill(Unit& unit) noexcept {
  if (unit.ticket != 0) {
    // An earlier write was cancelled; it may have finished all the same.
    Tier::Extent extent;
    try {
      extent = options_.tier->Wait(unit.ticket);
    } catch (...) {
      Failed(&Stats::tier_errors);
    }
    Locked locked(*this);
    unit.ticket = 0;
    unit.extent = extent;
  }
  if (unit.extent.bytes != 0) {
    Locked locked(*this);
    Move(unit, Change::kShed, 0);
    LetBlockGo(unit, locked.trash);
    return true;
  }
  try {
    unit.out.HostWait(*device_);
  } catch (...) {
    Failed(&Stats::device_errors);
    const bool settled = Settle(unit.copied_on);
    Locked locked(*this);
    Move(unit, Change::kLose, 0);
    if (!settled) pool_->Abandon(std::exchange(unit.block, HostBlock()));
    LetBlockGo(unit, locked.trash);
    return false;
  }
  Tier::Ticket ticket = 0;
  try {
    ticket = options_.tier->StartWrite(unit.block.data, unit.bytes);
  } catch (...) {
    Failed(&Stats::tier_errors);
    return false;
  }
  const double now = Now();
  Locked locked(*this);
  unit.ticket = ticket;
  unit.ticket_on_block = true;
  unit.ticket_writes = true;
  unit.issued_s = now;
  Move(unit, Change::kSpill, now);
  return true;
}

// Writes from device memory itself, once the work that makes the bytes is done.
Reason Core::StartDirectWrite(Unit& unit, Stream stream) noexcept {
  Piece& piece = unit.pieces.front();
  Tier::Ticket ticket = 0;
  std::shared_ptr<const StorageWatch> watch;
  try {
    pool_->events().Mark(stream).HostWait(*device_);
    watch = piece.memory->Watch();
    const auto* data = static_cast<const std::byte*>(device_->HostAddress(*piece.memory));
    ticket = options_.tier->StartWrite(data + unit.From(piece), piece.bytes());
  } catch (...) {
    Failed(&Stats::tier_errors);
    return Reason::kKeptHostFull;
  }
  const double now = Now();
  Locked locked(*this);
  unit.ticket = ticket;
  unit.ticket_on_block = false;
  unit.ticket_writes = true;
  unit.issued_s = now;
  piece.watch = std::move(watch);
  Move(unit, Change::kSpill, now);
  stats_.bytes_out += static_cast<std::int64_t>(unit.bytes);
  ++stats_.moved_units;
  return Reason::kSwapped;
}

// Begins to read a claimed unit back. False, without `demanded`, when there is no room for it.
bool Core::StartFetch(Unit& unit, Stream stream, bool demanded) {
  if (Direct() && unit.pieces.size() == 1) return StartDirectRead(unit, stream, demanded);
  std::optional<HostBlock> block =
      demanded ? TakeBlock(unit.bytes, &unit) : pool_->Take(unit.bytes);
  if (!block) {
    if (!demanded) return false;
    throw Error(ErrorCode::kBadInput,
                fmt::format("{} bytes of host memory are needed to read a saved tensor back from "
                            "file, but the cap of {} bytes is taken by tensors that cannot be "
                            "written to file; raise the host cap or make room on file",
                            unit.bytes, pool_->cap()));
  }
  Tier::Ticket ticket = 0;
  try {
    block->guard.HostWait(*device_);
    ticket = options_.tier->StartRead(unit.extent, block->data);
  } catch (...) {
    EventRef guard = block->guard;
    pool_->Give(std::move(*block), std::move(guard));
    throw;
  }
  const double now = Now();
  Locked locked(*this);
  unit.block = std::move(*block);
  unit.out.reset();
  unit.last_touch.reset();
  unit.ticket = ticket;
  unit.ticket_on_block = true;
  unit.ticket_writes = false;
  unit.issued_s = now;
  Move(unit, Change::kFetch, now);
  return true;
}

bool Core::StartDirectRead(Unit& unit, Stream stream, bool demanded) {
  DeviceBuffer fresh = Allocate(unit.bytes, stream, demanded);
  pool_->events().Mark(stream).HostWait(*device_);
  const bool ordered = fresh->FreesInOrderOf(stream);
  const Tier::Ticket ticket = options_.tier->StartRead(unit.extent, device_->HostAddress(*fresh));
  const double now = Now();
  Locked locked(*this);
  Piece& piece = unit.pieces.front();
  piece.memory = std::move(fresh);
  unit.native = false;
  unit.ready.reset();
  unit.waited = false;
  unit.home = stream;
  unit.home_ordered = ordered;
  unit.demanded = demanded;
  unit.ticket = ticket;
  unit.ticket_on_block = false;
  unit.ticket_writes = false;
  unit.issued_s = now;
  Move(unit, Change::kPrefetch, now);
  CountBrought(unit, true);
  stats_.bytes_in += static_cast<std::int64_t>(unit.bytes);
  if (demanded) ++stats_.demand_loads;
  return true;
}

// Waits for a claimed unit's read or write. Errors: a failed read's; the extent stays.
void Core::FinishTicket(Unit& unit) {
  const bool writes = unit.ticket_writes;
  Tier::Extent extent;
  std::exception_ptr error;
  try {
    extent = options_.tier->Wait(unit.ticket);
  } catch (...) {
    error = std::current_exception();
    Failed(&Stats::tier_errors);
  }
  const double now = Now();
  Locked locked(*this);
  unit.ticket = 0;
  if (writes) {
    if (error) {
      Move(unit, Change::kSpillFailed, now);
      unit.to_file = false;
      unit.kept = unit.kept || unit.state == State::kResident;
      return;
    }
    const bool direct = unit.state == State::kWriting;
    unit.extent = extent;
    stats_.file_bytes += static_cast<std::int64_t>(unit.bytes);
    if (direct) {
      GiveUp(unit, Change::kSpilled, locked.trash, now);
    } else {
      Move(unit, Change::kSpilled, now);
      LetBlockGo(unit, locked.trash);
    }
    return;
  }
  if (!error) {
    unit.host_valid = unit.state == State::kFetching;
    Move(unit, Change::kFetched, now);
    return;
  }
  if (unit.state == State::kReading) {
    GiveUp(unit, Change::kFetchFailed, locked.trash, now);
  } else {
    Move(unit, Change::kFetchFailed, now);
    LetBlockGo(unit, locked.trash);
  }
  std::rethrow_exception(error);
}

// Starts a write where the region asked for it, or while the pool is nearly full, so that a later
// pack finds room without waiting.
void Core::SpillAhead() noexcept {
  const std::size_t used = static_cast<std::size_t>(pool_->stats().used_bytes);
  const bool short_of_room = used > pool_->cap() / 4 * 3;
  Unit* unit = nullptr;
  {
    Locked locked(*this);
    int looked = 0;
    for (unit = hosted_.front(); unit != nullptr; unit = UnitList<&Unit::hosted>::After(*unit)) {
      if (++looked > 16) return;
      const bool wanted = short_of_room || unit->to_file;
      if (wanted && !unit->busy && !unit->manual && unit->extent.bytes == 0) break;
    }
    if (unit == nullptr) return;
    Hold(*unit);
  }
  try {
    if (unit->out.Done(*device_)) StartSpill(*unit);
  } catch (...) {
    Failed(&Stats::device_errors);
  }
  Locked locked(*this);
  Unclaim(*unit, locked.trash);
}

}  // namespace restow::swap
