#include "emulator/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "emulator/races.h"
#include "restow/base/units.h"

namespace restow::emulator {
namespace {

// Alignment of torch's CPU allocator, which vectorised kernels may depend on.
constexpr std::size_t kAlignment = 64;
// Freed blocks are kept until this many bytes of them, to notice who reads them.
constexpr std::uint64_t kFreedBytes = std::uint64_t{16} << 20;

std::uintptr_t AddressOf(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

std::shared_ptr<void> NewMemory(std::uint64_t bytes) {
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const data = std::aligned_alloc(kAlignment, rounded);
  if (data == nullptr) throw std::bad_alloc();
  return {data, std::free};
}

void Poison(Block& block) { std::memset(block.data, kPoison, block.bytes); }

using Blocks = std::map<std::uintptr_t, std::shared_ptr<Block>>;

std::shared_ptr<Block> FindIn(const Blocks& blocks, std::uintptr_t address) {
  const auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return nullptr;
  const auto& block = std::prev(after)->second;
  return address - AddressOf(block->data) < block->bytes ? block : nullptr;
}

// Forgets a freed block whose address is in use again.
void ForgetFreed(Machine& m, std::uintptr_t begin, std::uint64_t bytes) {
  auto at = m.freed.lower_bound(begin);
  while (at != m.freed.end() && at->first < begin + bytes) {
    m.freed_bytes -= at->second->bytes;
    std::erase(m.freed_order, at->first);
    at = m.freed.erase(at);
  }
}

void KeepFreed(Machine& m, std::shared_ptr<Block> block) {
  const std::uintptr_t address = AddressOf(block->data);
  m.freed_bytes += block->bytes;
  m.freed_order.push_back(address);
  m.freed.emplace(address, std::move(block));
  while (m.freed_bytes > kFreedBytes) {
    const auto oldest = m.freed.find(m.freed_order.front());
    m.freed_order.pop_front();
    m.freed_bytes -= oldest->second->bytes;
    m.freed.erase(oldest);
  }
}

Block& AddBlock(Machine& m, int device, Actor home, void* data, std::uint64_t bytes,
                std::shared_ptr<void> memory, const Access& first) {
  ForgetFreed(m, AddressOf(data), bytes);
  auto block = std::make_shared<Block>(Block{m.next_block++,
                                             device,
                                             home,
                                             bytes,
                                             static_cast<std::byte*>(data),
                                             std::move(memory),
                                             first.label,
                                             History(bytes, first),
                                             {},
                                             0,
                                             false,
                                             ""});
  return *m.live.emplace(AddressOf(data), std::move(block)).first->second;
}

bool Fits(const DeviceState& device, std::uint64_t bytes) {
  return device.memory.active_bytes + bytes <= device.options.capacity_bytes;
}

std::string Size(std::uint64_t bytes) {
  return FormatBytes(Bytes(static_cast<std::int64_t>(bytes)));
}

[[noreturn]] void ThrowOutOfMemory(DeviceState& device, int index, std::uint64_t bytes) {
  MemoryFigures& memory = device.memory;
  ++memory.out_of_memory_errors;
  const std::uint64_t capacity = device.options.capacity_bytes;
  const std::uint64_t left = capacity - std::min(capacity, memory.active_bytes);
  throw OutOfMemory("emu out of memory. Tried to allocate " + Size(bytes) + ". Device " +
                    std::to_string(index) + " has a total capacity of " + Size(capacity) +
                    " of which " + Size(left) + " is free. " + Size(memory.allocated_bytes) +
                    " is allocated by tensors, and " +
                    Size(memory.active_bytes - memory.allocated_bytes) +
                    " is freed but still in use by recorded streams. Raise it with "
                    "restow.emulator.set_capacity().");
}

// Makes room for `bytes` and counts them.
void Reserve(Machine& m, Lock& lock, int index, std::uint64_t bytes) {
  DeviceState& device = m.devices.at(index);
  ReleaseDeferred(m, index);
  while (!Fits(device, bytes) && !device.deferred.empty()) {
    WaitHost(m, lock, std::min_element(device.deferred.begin(), device.deferred.end())->first);
    ReleaseDeferred(m, index);
  }
  if (!Fits(device, bytes)) ThrowOutOfMemory(device, index, bytes);
  MemoryFigures& memory = device.memory;
  ++memory.allocations;
  memory.allocated_bytes += bytes;
  memory.active_bytes += bytes;
  memory.peak_allocated_bytes = std::max(memory.peak_allocated_bytes, memory.allocated_bytes);
  memory.peak_active_bytes = std::max(memory.peak_active_bytes, memory.active_bytes);
}

// The streams recorded on a block hold its bytes until what they have now is done.
void GiveBack(Machine& m, const Block& block) {
  DeviceState& device = m.devices.at(block.device);
  device.memory.allocated_bytes -= block.bytes;
  Ticks until = 0;
  for (const Actor actor : block.recorded) {
    const int index = static_cast<int>(actor) - 1;
    until = std::max(until, StreamOf(m, index / kStreams, index % kStreams).ready);
  }
  if (until > HostNow(m)) {
    device.deferred.emplace_back(until, block.bytes);
  } else {
    device.memory.active_bytes -= block.bytes;
  }
}

// What the free of `block` is ordered after: its home stream, and what the host has waited for.
VectorClock FreeClock(Machine& m, const Block& block) {
  VectorClock clock = m.host;
  if (block.home == kHost) return clock;
  const int index = static_cast<int>(block.home) - 1;
  clock.Join(StreamOf(m, index / kStreams, index % kStreams).clock);
  return clock;
}

void Release(Machine& m, void* data) {
  const auto found = m.live.find(AddressOf(data));
  if (found == m.live.end()) return;
  const std::shared_ptr<Block> block = found->second;
  m.live.erase(found);
  const auto unseen = block->history.Unseen(FreeClock(m, *block), block->recorded);
  for (const Access& first : unseen) ReportEarlyFree(m, *block, first);
  const bool strict = !unseen.empty() && m.options.schedule != Schedule::kThreads;
  if (strict || block->pending == 0) {
    Poison(*block);
  } else {
    block->poison_when_idle = true;
  }
  if (block->device == kHostMemory) {
    m.pinned_bytes -= block->bytes;
  } else {
    GiveBack(m, *block);
  }
  KeepFreed(m, block);
}

bool Record(Machine& m, const std::shared_ptr<Block>& block, int device, int stream) {
  if (block == nullptr) return false;
  const Actor actor = StreamOf(m, device, stream).actor;
  const bool known =
      std::find(block->recorded.begin(), block->recorded.end(), actor) != block->recorded.end();
  if (!known && actor != block->home) block->recorded.push_back(actor);
  return true;
}

}  // namespace

void* Allocate(int device, int stream, std::uint64_t bytes) {
  if (bytes == 0) return nullptr;
  Machine& m = TheMachine();
  Lock lock(m.mutex);
  Reserve(m, lock, device, bytes);
  const StreamState& home = StreamOf(m, device, stream);
  // The memory may be what earlier work on this stream used: whoever touches it must be ordered
  // after that work. The allocation itself is no work.
  const Access made{AccessKind::kAllocate, home.clock.Last(home.actor),
                    Intern("allocation on " + ActorName(home.actor))};
  auto memory = NewMemory(bytes);
  void* const data = memory.get();
  Poison(AddBlock(m, device, home.actor, data, bytes, std::move(memory), made));
  return data;
}

void Adopt(int device, int stream, void* data, std::uint64_t bytes, std::shared_ptr<void> memory,
           const Access& made) {
  if (bytes == 0) return;
  Machine& m = TheMachine();
  Lock lock(m.mutex);
  Reserve(m, lock, device, bytes);
  AddBlock(m, device, StreamOf(m, device, stream).actor, data, bytes, std::move(memory), made);
}

void Free(void* data) noexcept {
  if (data == nullptr) return;
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  Release(m, data);
}

void RecordStream(const void* data, int device, int stream) {
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  Record(m, FindLive(m, AddressOf(data)), device, stream);
}

void* AllocatePinned(std::uint64_t bytes) {
  if (bytes == 0) return nullptr;
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  if (m.options.pinned_bytes && m.pinned_bytes + bytes > *m.options.pinned_bytes) {
    throw OutOfMemory("emu out of pinned host memory. Tried to allocate " + Size(bytes) + "; " +
                      Size(m.pinned_bytes) + " of " + Size(*m.options.pinned_bytes) +
                      " is in use. Raise it with restow.emulator.configure(pinned_capacity=...).");
  }
  m.pinned_bytes += bytes;
  const Access made{AccessKind::kAllocate, m.host.Tick(kHost), Intern("pinned allocation")};
  auto memory = NewMemory(bytes);
  void* const data = memory.get();
  Poison(AddBlock(m, kHostMemory, kHost, data, bytes, std::move(memory), made));
  return data;
}

void FreePinned(void* data) noexcept { Free(data); }

bool IsPinned(const void* data) {
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  const auto block = FindLive(m, AddressOf(data));
  return m.options.pinned && block != nullptr && block->device == kHostMemory;
}

bool RecordPinned(const void* data, int device, int stream) {
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  const auto found = m.live.find(AddressOf(data));
  return found != m.live.end() && Record(m, found->second, device, stream);
}

int DeviceOf(const void* data) {
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  const auto block = FindLive(m, AddressOf(data));
  return block == nullptr || block->device == kHostMemory ? 0 : block->device;
}

void SetElements(const void* data, const char* dtype) {
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  if (const auto block = FindLive(m, AddressOf(data))) block->elements = dtype;
}

std::shared_ptr<void> Hold(const void* data) {
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  const auto block = FindLive(m, AddressOf(data));
  return block != nullptr ? block : FindFreed(m, AddressOf(data));
}

std::shared_ptr<Block> FindLive(Machine& m, std::uintptr_t address) {
  return FindIn(m.live, address);
}

std::shared_ptr<Block> FindFreed(Machine& m, std::uintptr_t address) {
  return FindIn(m.freed, address);
}

void ReleaseDeferred(Machine& m, int index) {
  DeviceState& device = m.devices.at(index);
  const Ticks now = HostNow(m);
  std::erase_if(device.deferred, [&](const auto& entry) {
    if (entry.first > now) return false;
    device.memory.active_bytes -= entry.second;
    return true;
  });
}

void Unpin(Block& block) {
  if (--block.pending == 0 && block.poison_when_idle) Poison(block);
}

}  // namespace restow::emulator
