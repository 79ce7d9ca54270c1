#include "swap/host_pool.h"

#include <algorithm>

namespace restow::swap {
namespace {

constexpr std::size_t kSmallestSlab = std::size_t{64} << 10;
constexpr std::size_t kLargestSharedSlab = std::size_t{4} << 20;

std::size_t RoundUp(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// What a request of `bytes` takes from a slab.
std::size_t BlockBytes(std::size_t bytes) {
  return RoundUp(bytes, bytes < HostPool::kLarge ? HostPool::kAlignment : HostPool::kPage);
}

// A free block may serve a smaller request when no more than a tenth is wasted.
bool Fits(std::size_t block, std::size_t wanted) { return block <= wanted + wanted / 10; }

}  // namespace

std::shared_ptr<HostPool> MakeHostPool(std::shared_ptr<Device> device, HostPoolOptions options) {
  return std::make_shared<HostPool>(std::move(device), options);
}

HostPoolStats StatsOf(const HostPool& pool) { return pool.stats(); }

HostPool::HostPool(std::shared_ptr<Device> device, HostPoolOptions options)
    : device_(std::move(device)),
      events_(device_),
      cap_(static_cast<std::size_t>(std::max<std::int64_t>(options.cap.value(), 0))),
      pin_failure_(options.pin_failure) {}

HostPool::~HostPool() {
  Freed freed;
  for (std::uint32_t i = 0; i < slabs_.size(); ++i) {
    // Blocks still out, or abandoned, may be under a copy: their slab is left to the process.
    if (slabs_[i].live && slabs_[i].free_blocks == slabs_[i].blocks) Drop(i, freed);
  }
  for (auto& entry : unsettled_) freed.push_back(std::move(entry));
  unsettled_.clear();
  FreeAll(freed);
}

std::optional<HostBlock> HostPool::Take(std::size_t bytes) {
  const std::size_t wanted = BlockBytes(bytes);
  std::size_t slab_bytes = 0;
  Freed freed;
  std::optional<HostBlock> block;
  bool room = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    block = TakeFree(wanted);
    if (!block) block = Cut(wanted);
    if (!block) {
      slab_bytes = SlabBytes(wanted);
      room = MakeRoom(slab_bytes, freed);
      if (!room && slab_bytes > wanted) room = MakeRoom(slab_bytes = wanted, freed);
      if (room) promised_ += slab_bytes;
    }
    if (block) CountUsed(block->asked = bytes);
  }
  // Memory that could not be freed still counts, so nothing is allocated in its place.
  const bool made = FreeAll(freed);
  if (block) return block;
  if (!made) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (room) promised_ -= slab_bytes;
    ++stats_.refusals;
    return std::nullopt;
  }
  const std::optional<HostMemory> memory = room ? Allocate(slab_bytes) : std::nullopt;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (room) promised_ -= slab_bytes;
  if (!memory) {
    ++stats_.refusals;
    return std::nullopt;
  }
  Add(*memory, wanted < kLarge);
  block = Cut(wanted);
  CountUsed(block->asked = bytes);
  return block;
}

// Best fit; the block freed first of its size, whose copy is the likeliest to be done.
std::optional<HostBlock> HostPool::TakeFree(std::size_t bytes) {
  for (auto bin = free_.lower_bound(bytes); bin != free_.end() && Fits(bin->first, bytes); ++bin) {
    if (bin->second.empty()) continue;
    HostBlock block = std::move(bin->second.front());
    bin->second.pop_front();
    --slabs_[block.slab].free_blocks;
    return block;
  }
  return std::nullopt;
}

// A new block from the uncut part of a slab.
std::optional<HostBlock> HostPool::Cut(std::size_t bytes) {
  for (std::uint32_t i = static_cast<std::uint32_t>(slabs_.size()); i-- > 0;) {
    Slab& slab = slabs_[i];
    if (!slab.live || slab.memory.bytes - slab.cut < bytes) continue;
    HostBlock block;
    block.data = static_cast<std::byte*>(slab.memory.data) + slab.cut;
    block.bytes = bytes;
    block.slab = i;
    slab.cut += bytes;
    ++slab.blocks;
    return block;
  }
  return std::nullopt;
}

// Shared slabs grow with what they hold, so that the uncut rest of the last one stays small.
std::size_t HostPool::SlabBytes(std::size_t bytes) const {
  if (bytes >= kLarge) return bytes;
  const std::size_t step =
      std::clamp(RoundUp(shared_reserved_ / 16, kPage), kSmallestSlab, kLargestSharedSlab);
  // Whole multiples, so that equal requests leave no rest.
  return std::max(step / bytes * bytes, bytes);
}

// Makes `bytes` more fit under the cap, and keeps what is reserved near what is used: slabs nobody
// uses are freed first. False: the cap refuses.
bool HostPool::MakeRoom(std::size_t bytes, Freed& freed) {
  const std::size_t used = static_cast<std::size_t>(stats_.used_bytes) + bytes;
  for (auto& entry : unsettled_) {
    stats_.reserved_bytes -= static_cast<std::int64_t>(entry.first.bytes);
    freed.push_back(std::move(entry));
  }
  unsettled_.clear();
  const auto reserved = [&] { return static_cast<std::size_t>(stats_.reserved_bytes) + promised_; };
  for (std::uint32_t i = 0; i < slabs_.size(); ++i) {
    const std::size_t after = reserved() + bytes;
    if (after <= cap_ && after <= used + used / 10) break;
    if (slabs_[i].live && slabs_[i].free_blocks == slabs_[i].blocks) Drop(i, freed);
  }
  return bytes <= cap_ && reserved() <= cap_ - bytes;
}

// Takes a slab whose blocks are all free out of the tables.
void HostPool::Drop(std::uint32_t index, Freed& freed) {
  Slab& slab = slabs_[index];
  std::vector<EventRef> guards;
  for (auto& [size, blocks] : free_) {
    for (auto block = blocks.begin(); block != blocks.end();) {
      if (block->slab != index) {
        ++block;
        continue;
      }
      if (!block->guard.SeenDone()) guards.push_back(block->guard);
      block = blocks.erase(block);
    }
  }
  std::erase_if(free_, [](const auto& bin) { return bin.second.empty(); });
  stats_.reserved_bytes -= static_cast<std::int64_t>(slab.memory.bytes);
  if (slab.shared) shared_reserved_ -= slab.memory.bytes;
  freed.emplace_back(slab.memory, std::move(guards));
  slab = Slab();
  unused_.push_back(index);
}

// Gives slabs back to the device once no copy touches them. False when the device could not say so
// for one: it stays reserved, and is tried again.
bool HostPool::FreeAll(Freed& freed) noexcept {
  bool all = true;
  for (auto& [memory, guards] : freed) {
    try {
      for (const EventRef& guard : guards) guard.HostWait(*device_);
      device_->FreeHost(memory);
    } catch (...) {
      all = false;
      const std::lock_guard<std::mutex> lock(mutex_);
      stats_.reserved_bytes += static_cast<std::int64_t>(memory.bytes);
      unsettled_.emplace_back(memory, std::move(guards));
    }
  }
  return all;
}

std::optional<HostMemory> HostPool::Allocate(std::size_t bytes) noexcept {
  const bool pin = device_->capabilities().pinned_memory;
  if (pin) {
    try {
      return device_->AllocateHost(bytes, true);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++stats_.pin_failures;
      if (pin_failure_ == PinFailure::kKeep) return std::nullopt;
    }
  }
  try {
    return device_->AllocateHost(bytes, false);
  } catch (...) {
    return std::nullopt;
  }
}

void HostPool::Add(const HostMemory& memory, bool shared) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<std::uint32_t>(slabs_.size()));
    slabs_.emplace_back();
  }
  Slab& slab = slabs_[unused_.back()];
  unused_.pop_back();
  slab.memory = memory;
  slab.live = true;
  slab.shared = shared;
  if (shared) shared_reserved_ += memory.bytes;
  ++stats_.allocations;
  stats_.reserved_bytes += static_cast<std::int64_t>(memory.bytes);
  stats_.peak_reserved_bytes = std::max(stats_.peak_reserved_bytes, stats_.reserved_bytes);
}

void HostPool::CountUsed(std::size_t bytes) {
  stats_.used_bytes += static_cast<std::int64_t>(bytes);
  stats_.peak_used_bytes = std::max(stats_.peak_used_bytes, stats_.used_bytes);
}

void HostPool::Give(HostBlock block, EventRef guard) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  stats_.used_bytes -= static_cast<std::int64_t>(block.asked);
  block.guard = std::move(guard);
  ++slabs_[block.slab].free_blocks;
  free_[block.bytes].push_back(std::move(block));
}

void HostPool::Abandon(const HostBlock& block) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  stats_.used_bytes -= static_cast<std::int64_t>(block.asked);
  stats_.abandoned_bytes += static_cast<std::int64_t>(block.bytes);
}

HostPoolStats HostPool::stats() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stats_;
}

}  // namespace restow::swap
