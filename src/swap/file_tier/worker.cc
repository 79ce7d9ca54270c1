#include "swap/file_tier/worker.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "swap/file_tier/checksum.h"

namespace restow::swap::file_tier {
namespace {

// Interrupted, told to try again, or moved less than one block: as often as this in a row.
constexpr int kMostStalls = 100;

}  // namespace

Worker::Worker(Table& table, SwapFile& file, std::unique_ptr<TransferQueue> queue,
               const WorkerOptions& options)
    : table_(table), file_(file), queue_(std::move(queue)), options_(options) {
  for (int i = 0; i < options_.depth; ++i) {
    free_.push_back(slots_.emplace_back(std::make_unique<Slot>()).get());
  }
}

void Worker::Run() {
  for (;;) {
    Fill();
    if (free_.size() == slots_.size()) {
      if (!table_.AwaitWork(options_.index)) return;
      continue;
    }
    Transfer* transfer = queue_->Wait();
    if (transfer == nullptr) continue;
    const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                   [&](const auto& each) { return &each->transfer == transfer; });
    Completed(**slot);
  }
}

void Worker::Fill() {
  Work work;
  while (!free_.empty() && table_.TryTake(options_.index, work)) {
    Slot& slot = *free_.back();
    free_.pop_back();
    slot.work = work;
    Begin(slot);
  }
}

void Worker::Begin(Slot& slot) {
  slot.result = {};
  slot.done = 0;
  slot.stalls = 0;
  if (Prepare(slot)) Submit(slot);
}

bool Worker::Prepare(Slot& slot) {
  Piece& piece = *slot.work.piece;
  const bool write = slot.work.job->write;
  if (!ChooseBuffer(slot)) {
    Fail(slot, Failure::Kind::kMemory, ENOMEM);
    return false;
  }
  if (!write) return true;
  const int full = file_.Reserve(piece.file_offset + slot.total);
  if (full != 0) {
    Fail(slot, Failure::Kind::kReserve, full);
    return false;
  }
  if (slot.bounced) {
    std::memcpy(slot.bounce.data(), slot.work.data(), piece.size);
    // What lies behind the blob is written too; another blob's old bytes need not be.
    std::memset(slot.bounce.data() + piece.size, 0, slot.total - piece.size);
    slot.result.copied += static_cast<std::int64_t>(piece.size);
  }
  if (options_.checksums) piece.checksum = Checksum(memory(slot), piece.size);
  return true;
}

// Direct I/O wants whole blocks and aligned memory.
bool Worker::ChooseBuffer(Slot& slot) {
  const Piece& piece = *slot.work.piece;
  slot.total = piece.size;
  slot.bounced = false;
  if (!file_.direct()) return true;
  const std::uint64_t alignment = file_.alignment();
  slot.total = (piece.size + alignment - 1) / alignment * alignment;
  const auto address = reinterpret_cast<std::uintptr_t>(slot.work.data());
  slot.bounced = slot.total != piece.size || address % file_.memory_alignment() != 0;
  return !slot.bounced || slot.bounce.Ensure(options_.transfer_bytes,
                                             std::max<std::size_t>(file_.memory_alignment(), 4096));
}

void Worker::Submit(Slot& slot) {
  slot.transfer.write = slot.work.job->write;
  slot.transfer.data = memory(slot) + slot.done;
  slot.transfer.size = slot.total - slot.done;
  slot.transfer.offset = slot.work.piece->file_offset + slot.done;
  queue_->Submit(&slot.transfer);
}

void Worker::Completed(Slot& slot) {
  const ssize_t result = slot.transfer.result;
  if (result == -EINTR || result == -EAGAIN) return Stalled(slot, static_cast<int>(-result));
  if (result < 0) {
    if (ReadAgain(slot)) return;
    const auto kind = slot.transfer.write ? Failure::Kind::kWrite : Failure::Kind::kRead;
    return Fail(slot, kind, static_cast<int>(-result));
  }
  // Direct I/O can only go on from a whole block.
  const auto moved = static_cast<std::size_t>(result);
  const bool whole = slot.done + moved >= slot.total;
  const std::size_t kept = file_.direct() && !whole ? moved - moved % file_.alignment() : moved;
  slot.done += kept;
  if (whole) return Arrived(slot);
  ++slot.result.short_transfers;
  // A write that moves nothing without an error has met a full disk; a read, the file's end.
  if (kept == 0) return Stalled(slot, slot.transfer.write ? ENOSPC : ENODATA);
  slot.stalls = 0;
  Submit(slot);
}

void Worker::Stalled(Slot& slot, int error) {
  if (++slot.stalls <= kMostStalls) return Submit(slot);
  Fail(slot, slot.transfer.write ? Failure::Kind::kWrite : Failure::Kind::kRead, error);
}

void Worker::Arrived(Slot& slot) {
  const Piece& piece = *slot.work.piece;
  if (!slot.transfer.write) {
    if (options_.checksums && Checksum(memory(slot), piece.size) != piece.checksum) {
      if (!ReadAgain(slot)) Fail(slot, Failure::Kind::kChecksum, 0);
      return;
    }
    if (slot.bounced) {
      std::memcpy(slot.work.data(), slot.bounce.data(), piece.size);
      slot.result.copied += static_cast<std::int64_t>(piece.size);
    }
  }
  End(slot);
}

bool Worker::ReadAgain(Slot& slot) {
  if (slot.transfer.write || slot.result.rereads > 0) return false;
  slot.result.rereads = 1;
  slot.done = 0;
  slot.stalls = 0;
  Submit(slot);
  return true;
}

void Worker::Fail(Slot& slot, Failure::Kind kind, int error) {
  const Piece& piece = *slot.work.piece;
  slot.result.failure = {kind, error, piece.file_offset, piece.size};
  End(slot);
}

void Worker::End(Slot& slot) {
  free_.push_back(&slot);
  table_.Finish(slot.work, slot.result);
}

}  // namespace restow::swap::file_tier
