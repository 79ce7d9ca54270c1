// Copies of one claimed unit: device calls, made without the lock.
#include "swap/core.h"

namespace restow::swap {

// Behind what `stream` holds now, on the copy stream, into a block of the pool; nothing waits.
// What was begun and failed is undone, so that the unit is as it was.
Reason Core::IssueOut(Unit& unit, Stream stream) {
  std::optional<HostBlock> block = TakeBlock(unit.bytes, nullptr);
  if (!block) return Reason::kKeptHostFull;
  const Stream out = OutStream(stream);
  EventRef begun, done;
  DeviceBuffer staging;
  std::vector<std::shared_ptr<const StorageWatch>> watches;
  bool queued = false;
  try {
    for (const Piece& piece : unit.pieces) watches.push_back(piece.memory->Watch());
    if (unit.pieces.size() > 1) {
      staging = device_->Allocate(unit.bytes, stream);
      queued = true;
      std::vector<Device::Piece> pieces;
      for (const Piece& piece : unit.pieces) {
        pieces.push_back({piece.memory.get(), unit.From(piece), piece.bytes(), piece.at});
      }
      device_->Gather(*staging, pieces, stream);
    }
    if (!(out == stream)) pool_->events().Mark(stream).Order(*device_, out);
    block->guard.Order(*device_, out);
    begun = TraceMark(out);
    queued = true;
    if (staging) {
      device_->CopyOut(block->data, *staging, 0, unit.bytes, out);
    } else {
      const Piece& piece = unit.pieces.front();
      device_->CopyOut(block->data, *piece.memory, unit.From(piece), piece.bytes(), out);
    }
    done = pool_->events().Mark(out);
  } catch (...) {
    const bool settled = !queued || (Settle(stream) && Settle(out));
    if (settled) {
      EventRef guard = queued ? EventRef() : block->guard;
      pool_->Give(std::move(*block), std::move(guard));
    } else {
      pool_->Abandon(*block);
      std::vector<DeviceBuffer> memory{staging};
      for (const Piece& piece : unit.pieces) memory.push_back(piece.memory);
      Quarantine(std::move(memory));
    }
    throw;
  }
  const double now = Now();
  Trace(unit, Direction::kOut, std::move(begun), done, now);
  Locked locked(*this);
  for (std::size_t i = 0; i < watches.size(); ++i) unit.pieces[i].watch = std::move(watches[i]);
  if (staging) {
    Grave grave;
    grave.until = done;
    grave.stream = out;
    grave.memory.push_back(std::move(staging));
    graves_.push_back(std::move(grave));
  }
  Move(unit, Change::kOffload, now);
  unit.block = std::move(*block);
  unit.host_valid = true;
  unit.last_touch = unit.out = std::move(done);
  unit.copied_on = out;
  unit.issued_s = now;
  stats_.bytes_out += static_cast<std::int64_t>(unit.bytes);
  ++stats_.moved_units;
  return Reason::kSwapped;
}

// The buffer is allocated on the compute stream; the copy stream waits for that and for the copy
// out, copies, and records an event that whoever uses the unit waits for. The pieces of a fused unit
// share the buffer.
void Core::IssueIn(Unit& unit, Stream stream, bool demanded) {
  const Stream in = InStream(stream);
  DeviceBuffer fresh;
  EventRef begun, ready;
  bool queued = false;
  try {
    fresh = Allocate(unit.bytes, stream, demanded);
    if (!(in == stream)) pool_->events().Mark(stream).Order(*device_, in);
    unit.out.Order(*device_, in);
    begun = TraceMark(in);
    queued = true;
    device_->CopyIn(*fresh, 0, unit.block.data, unit.bytes, in);
    ready = pool_->events().Mark(in);
  } catch (...) {
    if (queued && !Settle(in)) Quarantine({std::move(fresh)});
    throw;
  }
  const bool ordered = fresh->FreesInOrderOf(stream);
  const double now = Now();
  Trace(unit, Direction::kIn, std::move(begun), ready, now);
  Locked locked(*this);
  for (Piece& piece : unit.pieces) piece.memory = fresh;
  unit.native = false;
  unit.last_touch = unit.ready = std::move(ready);
  unit.copied_on = in;
  unit.waited = false;
  unit.home = stream;
  unit.home_ordered = ordered;
  unit.demanded = demanded;
  unit.issued_s = now;
  Move(unit, Change::kPrefetch, now);
  CountBrought(unit, true);
  stats_.bytes_in += static_cast<std::int64_t>(unit.bytes);
}

// At a use, what the engine holds for later gives way.
DeviceBuffer Core::Allocate(std::size_t bytes, Stream stream, bool demanded) {
  if (!demanded) return device_->Allocate(bytes, stream);
  try {
    return device_->Allocate(bytes, stream);
  } catch (...) {
    if (!FreeDeviceMemory(stream)) throw;
  }
  return device_->Allocate(bytes, stream);
}

// After a call that failed: is everything queued on `stream` over?
bool Core::Settle(Stream stream) noexcept {
  try {
    device_->Synchronize(stream);
    return true;
  } catch (...) {
    return false;
  }
}

void Core::Quarantine(std::vector<DeviceBuffer> memory) noexcept {
  Locked locked(*this);
  for (DeviceBuffer& one : memory) {
    if (one) quarantine_.push_back(std::move(one));
  }
}

EventRef Core::TraceMark(Stream stream) {
  if (!tracing_.load() || !capabilities_.timed_events) return {};
  return pool_->events().Mark(stream);
}

void Core::Trace(Unit& unit, Direction direction, EventRef begun, EventRef ended, double now_s) {
  if (!tracing_.load()) return;
  Probe probe;
  probe.first = std::move(begun);
  probe.second = std::move(ended);
  probe.event.direction = direction;
  probe.event.unit = unit.id;
  probe.event.bytes = static_cast<std::int64_t>(unit.bytes);
  probe.event.begin_s = now_s;
  Locked locked(*this);
  probe.event.site = schedule_.LabelOf(unit.name);
  probes_.push_back(std::move(probe));
}

}  // namespace restow::swap
