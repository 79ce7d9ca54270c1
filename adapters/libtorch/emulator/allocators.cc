#include "emulator/allocators.h"

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <cstring>
#include <utility>

#include "emulator/guard.h"
#include "emulator/memory.h"

namespace restow::emulator {
namespace {

using c10::DataPtr;
using c10::DeviceType;
using c10::CachingDeviceAllocator::DeviceStats;

constexpr std::size_t kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

c10::Device DeviceAt(int index) {
  return {DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)};
}

// Runs `allocate`, with the machine's error turned into torch's own.
template <typename Allocate>
void* OrTorchError(Allocate allocate) {
  try {
    return allocate();
  } catch (const OutOfMemory& error) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
  }
}

DataPtr AllocateOn(int device, std::size_t bytes) {
  const StreamName stream = CurrentStream(device);
  void* const data = OrTorchError([&] { return Allocate(device, stream.stream, bytes); });
  return {data, data, &Free, DeviceAt(device)};
}

void SetStat(c10::CachingAllocator::StatArray& stats, std::uint64_t now, std::uint64_t peak) {
  stats[kAll].current = static_cast<std::int64_t>(now);
  stats[kAll].peak = static_cast<std::int64_t>(peak);
}

struct Device final : c10::DeviceAllocator {
  DataPtr allocate(std::size_t bytes) override { return AllocateOn(CurrentDevice(), bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {}
  void recordStream(const DataPtr& data, c10::Stream stream) override {
    RecordStream(data.get(), stream.device_index(), static_cast<int>(stream.id()));
  }
  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const MemoryFigures memory = Memory(device);
    DeviceStats stats;
    SetStat(stats.allocated_bytes, memory.allocated_bytes, memory.peak_allocated_bytes);
    SetStat(stats.requested_bytes, memory.allocated_bytes, memory.peak_allocated_bytes);
    SetStat(stats.active_bytes, memory.active_bytes, memory.peak_active_bytes);
    SetStat(stats.reserved_bytes, memory.active_bytes, memory.peak_active_bytes);
    stats.num_device_alloc = static_cast<std::int64_t>(memory.allocations);
    stats.num_ooms = static_cast<std::int64_t>(memory.out_of_memory_errors);
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex device) override { ResetPeakMemory(device); }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const std::uint64_t total = CurrentDeviceOptions(device).capacity_bytes;
    const std::uint64_t used = Memory(device).active_bytes;
    return {total - std::min(total, used), total};
  }
};

struct Pinned final : at::HostAllocator {
  DataPtr allocate(std::size_t bytes) override {
    void* const data = OrTorchError([&] { return AllocatePinned(bytes); });
    return {data, data, &FreePinned, DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &FreePinned; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  bool record_event(void* data, void* /*context*/, c10::Stream stream) override {
    return RecordPinned(data, stream.device_index(), static_cast<int>(stream.id()));
  }
  void empty_cache() override {}
  at::HostStats get_stats() override {
    at::HostStats stats;
    stats.allocated_bytes.current = static_cast<std::int64_t>(PinnedBytes());
    return stats;
  }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

// Allocators live as long as the process: tensors may outlive every static.
Device& TheDevice() {
  static Device* const device = new Device;
  return *device;
}

Pinned& ThePinned() {
  static Pinned* const pinned = new Pinned;
  return *pinned;
}

const bool registered = [] {
  c10::SetAllocator(DeviceType::PrivateUse1, &TheDevice());
  at::setHostAllocator(DeviceType::PrivateUse1, &ThePinned());
  return true;
}();

}  // namespace

c10::Allocator* DeviceAllocator() { return &TheDevice(); }
c10::Allocator* PinnedAllocator() { return &ThePinned(); }

DataPtr AdoptData(int device, void* data, std::size_t bytes, std::shared_ptr<void> memory,
                  const Access& made) {
  OrTorchError([&] {
    Adopt(device, CurrentStream(device).stream, data, bytes, std::move(memory), made);
    return data;
  });
  return {data, data, &Free, DeviceAt(device)};
}

}  // namespace restow::emulator
