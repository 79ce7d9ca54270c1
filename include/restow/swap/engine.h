// The activation engine's core: moves what a framework saved for backward to host memory and back.
//
// An adapter needs six calls. `Engine::Begin` opens a region, one per invocation of a module or
// function; `Region::Pack` takes a saved tensor's storage and gives a slot; `Slot::Unpack` gives
// device memory with the same bytes; the slot's destructor says that nobody will unpack again;
// `Engine::Step` marks the end of a step; `Engine::stats` tells what happened.
//
// A *unit* is one storage, however many slots view it: it moves once. Unpack may come never, once
// or many times, in any order and on any thread. A wrong schedule costs time, never bytes: what
// has not been copied back is copied back at unpack. Device memory is given up only by dropping
// references, after the copy's own event.
//
// Threads: everything may be called from any thread. Calls may wait for a copy or for another
// thread's call into the device, so a caller in Python gives up the interpreter lock first. Only
// slot and region destructors never wait for the device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "restow/swap/device.h"
#include "restow/swap/host_pool.h"
#include "restow/swap/options.h"
#include "restow/swap/stats.h"

namespace restow::swap {

class Core;
struct Unit;
struct RegionState;

// What is saved. Two saves with equal identity, version, offset and bytes share one unit.
struct Storage {
  // Not given to another storage while this one lives, nor while its watch does; 0: never shared.
  std::uint64_t identity = 0;
  // The content's version at this save: a storage written in between is another unit.
  std::uint64_t version = 0;
  std::size_t offset = 0, bytes = 0;  // the part of `memory` that is saved
  DeviceBuffer memory;
};

// One saved tensor's claim on a unit. Its destructor, and nothing else, frees.
class Slot {
 public:
  Slot() = default;
  Slot(Slot&& other) noexcept
      : core_(other.core_),
        unit_(std::exchange(other.unit_, nullptr)),
        piece_(other.piece_),
        reason_(other.reason_) {}
  Slot& operator=(Slot&& other) noexcept {
    if (this == &other) return *this;
    if (unit_ != nullptr) Release();
    core_ = other.core_;
    unit_ = std::exchange(other.unit_, nullptr);
    piece_ = other.piece_;
    reason_ = other.reason_;
    return *this;
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  ~Slot() {
    if (unit_ != nullptr) Release();
  }

  explicit operator bool() const { return unit_ != nullptr; }

  // Device memory with the bytes saved, ready for work queued on the caller's current stream from
  // now on. `Unpacked::offset` is where the saved part begins in it: the offset packed where the
  // memory is the one that was packed, the place in the buffer that fused storages share, else 0.
  // Errors: what the device or the tier threw; the slot is unharmed and may be unpacked again.
  struct Unpacked {
    DeviceBuffer memory;
    std::size_t offset = 0;
  };
  Unpacked Unpack() const;

  // Why the storage was, or was not, moved when this slot was packed.
  Reason reason() const { return reason_; }

 private:
  friend class Region;
  void Release() noexcept;
  Slot(Core* core, Unit* unit, std::uint32_t piece, Reason reason);

  Core* core_ = nullptr;
  Unit* unit_ = nullptr;
  std::uint32_t piece_ = 0;
  Reason reason_ = Reason::kKeptEmpty;
};

// One invocation of a region. Ends at End or destruction, also by an exception; slots outlive it.
class Region {
 public:
  Region() = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  // The copy starts behind what is queued on the current stream; the call does not wait for it.
  // Errors: none of the device's: a storage that cannot be moved is kept, and counted.
  Slot Pack(const Storage& storage, Decision decision = Decision::kAutomatic);
  // Sends the fused copy that is still open, if any.
  void End() noexcept;

 private:
  friend class Engine;
  Region(Core* core, RegionState* state);

  Core* core_ = nullptr;
  RegionState* state_ = nullptr;
};

// The use of one unit, for a schedule given from outside.
struct UseName {
  std::string site;
  std::uint32_t invocation = 0;  // of the site in the step, from 0
  std::uint32_t index = 0;       // of the storage in the invocation, in order of first pack, from 0
};

class Engine {
 public:
  // Errors: what the device throws when asked for streams.
  Engine(std::shared_ptr<Device> device, Options options = {});
  // Slots may outlive the engine; they keep what they need.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Region Begin(const RegionOptions& options);

  // Ends a step: the order of uses seen in it is the schedule of the next. Without any call, a
  // step ends when no unit is alive.
  void Step();
  // The order in which units will be used, until a step has taught another.
  void GiveOrder(const std::vector<UseName>& order);
  // The storage's content changed without a new version: later saves of it form a new unit.
  void Forget(std::uint64_t identity);

  // Groups, steered by hand. Errors: usage errors for a group nobody opened, or a wait that no
  // launch came before.
  void LaunchOffload(std::string_view group);
  void WaitOffload(std::string_view group);  // device memory is given up on return
  void LaunchLoad(std::string_view group);
  void WaitLoad(std::string_view group);   // the current stream waits
  void DropGroup(std::string_view group);  // forgets the name; units live on
  std::vector<std::string> GroupNames() const;

  Stats stats() const;
  void ResetStats();
  void CountRecomputedRegion();  // the adapter recomputes; the figures are kept in one place

  // The last transitions, oldest first.
  std::vector<Transition> Recorded() const;
  std::string Dump() const;
  // Copies unfinished for longer than `older_than_s`; each is named. What the watchdog calls.
  std::vector<std::string> Diagnose(double older_than_s) const;

  void StartTrace();
  std::vector<TraceEvent> StopTrace();

  // Waits for every copy under way and gives back what was held for it. For ends of runs and tests.
  void Drain();

 private:
  struct WatchdogThread;
  Core* core_ = nullptr;  // lives until the last slot and region are gone
  std::unique_ptr<WatchdogThread> watchdog_;
};

}  // namespace restow::swap
