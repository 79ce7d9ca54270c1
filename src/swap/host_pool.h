// Blocks of host memory, cut from slabs of exact sizes, under a hard byte cap.
//
// A large request gets a slab of its own size, small ones share slabs. A block given back is free
// at once and carries the event of its last copy; who takes it orders his copy behind that event.
// So what the pool does depends on the order of calls alone, never on how fast copies run, and with
// static shapes the second step finds every block it needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "restow/swap/host_pool.h"
#include "swap/event_pool.h"

namespace restow::swap {

struct HostBlock {
  std::byte* data = nullptr;
  std::size_t bytes = 0;  // usable
  std::size_t asked = 0;  // of which taken
  std::uint32_t slab = 0;
  EventRef guard;  // last copy that touched it; order behind it, or wait, before writing
  explicit operator bool() const { return data != nullptr; }
};

// Threads: any. Its lock is never held across a call into the device.
class HostPool {
 public:
  HostPool(std::shared_ptr<Device> device, HostPoolOptions options);
  ~HostPool();
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;

  // Nothing when the cap, or the device, refuses.
  std::optional<HostBlock> Take(std::size_t bytes);
  // Free again; `guard` as in HostBlock.
  void Give(HostBlock block, EventRef guard) noexcept;
  // Never to be used again: nobody knows whether a copy still touches it.
  void Abandon(const HostBlock& block) noexcept;

  HostPoolStats stats() const;
  std::size_t cap() const { return cap_; }
  EventPool& events() { return events_; }
  const std::shared_ptr<Device>& device() const { return device_; }

  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kLarge = std::size_t{1} << 20;
  static constexpr std::size_t kPage = 4096;

 private:
  struct Slab {
    HostMemory memory;
    std::size_t cut = 0;  // bytes handed out as blocks, ever
    std::size_t blocks = 0, free_blocks = 0;
    bool live = false;
    bool shared = false;  // cut for small requests
  };
  using Freed = std::vector<std::pair<HostMemory, std::vector<EventRef>>>;

  std::optional<HostBlock> TakeFree(std::size_t bytes);
  std::optional<HostBlock> Cut(std::size_t bytes);
  std::size_t SlabBytes(std::size_t bytes) const;
  bool MakeRoom(std::size_t bytes, Freed& freed);
  void Drop(std::uint32_t slab, Freed& freed);
  bool FreeAll(Freed& freed) noexcept;
  std::optional<HostMemory> Allocate(std::size_t bytes) noexcept;
  void Add(const HostMemory& memory, bool shared);
  void CountUsed(std::size_t bytes);

  std::shared_ptr<Device> device_;
  EventPool events_;
  std::size_t cap_;
  PinFailure pin_failure_;

  mutable std::mutex mutex_;
  std::vector<Slab> slabs_;
  std::vector<std::uint32_t> unused_;  // numbers of slabs no longer live
  std::map<std::size_t, std::deque<HostBlock>> free_;
  Freed unsettled_;           // freed as soon as the device says that their copies are over
  std::size_t promised_ = 0;  // reserved by a call that is asking the device right now
  std::size_t shared_reserved_ = 0;
  HostPoolStats stats_;
};

}  // namespace restow::swap
