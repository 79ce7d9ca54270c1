// What the table holds: a unit per storage, lists of units, and what is let go of later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "restow/swap/device.h"
#include "restow/swap/state.h"
#include "restow/swap/tier.h"
#include "swap/host_pool.h"

namespace restow::swap {

struct Unit;
struct Group;
struct RegionState;
struct Invocation;

using NameId = std::uint32_t;
inline constexpr NameId kNoName = ~NameId{0};

struct Link {
  Unit* before = nullptr;
  Unit* after = nullptr;
};

// The identity of a saved storage, for finding its unit again.
struct Key {
  std::uint64_t identity = 0, version = 0;
  std::size_t offset = 0, bytes = 0;
  friend bool operator==(const Key&, const Key&) = default;
};

// One storage. A fused unit has several, which travel in one copy; any other has one.
struct Piece {
  DeviceBuffer memory;  // while the device holds it
  Key key;
  bool keyed = false;  // in the table of keys
  // Beyond a cache line with the count of pieces: what only units that move need.
  std::size_t at = 0;  // where the piece begins in the host copy
  std::shared_ptr<const StorageWatch> watch;

  std::size_t bytes() const { return key.bytes; }
};

// Pieces side by side; the first needs no memory of its own.
class Pieces {
 public:
  std::size_t size() const { return size_; }
  Piece& operator[](std::size_t i) { return begin()[i]; }
  const Piece& operator[](std::size_t i) const { return begin()[i]; }
  Piece& front() { return *begin(); }
  const Piece& front() const { return *begin(); }
  Piece* begin() { return size_ > 1 ? many_.data() : &one_; }
  Piece* end() { return begin() + size_; }
  const Piece* begin() const { return size_ > 1 ? many_.data() : &one_; }
  const Piece* end() const { return begin() + size_; }

  Piece& Add() { return size_++ == 0 ? one_ : AddToMany(); }
  void Clear() {
    if (size_ > 1) many_.clear();
    one_ = Piece();
    size_ = 0;
  }
  // Clear, where the only piece was emptied by hand.
  void Forget() { size_ = 0; }

 private:
  [[gnu::noinline]] Piece& AddToMany() {
    if (size_ == 2) many_.push_back(std::exchange(one_, Piece()));
    return many_.emplace_back();
  }

  std::size_t size_ = 0;
  Piece one_;
  std::vector<Piece> many_;
};

// What most units never need beyond: a tensor that stays is registered, found and released in these
// few cache lines.
struct UnitCore {
  std::uint64_t id = 0;
  std::size_t bytes = 0;
  Invocation* invocation = nullptr;  // that packed it first
  std::uint32_t slots = 0;
  NameId name = kNoName;  // in the schedule; units that are kept from the start have none
  State state = State::kResident;
  bool busy = false;     // claimed by a thread that calls the device for it
  bool touched = false;  // was claimed once, or is in a list beside `alive`: more than this is used
  bool kept = false;     // stays on the device
  bool manual = false;   // moved by its group's calls only
  bool to_file = false;  // goes on to the tier below
  bool brought = false;  // counted in brought_bytes
  bool native = true;    // the device memory is what the caller packed
  bool demanded = false;  // its copy in was issued at its use
  // Of the first piece's key. Written before the unit has a slot: a slot's holder needs no lock.
  std::uint32_t hash = 0;
};

// Guarded by the table lock, except that the thread which has claimed a unit (`busy`) may read it
// without. Whoever claims also is the only one who changes state, memory, events and blocks.
struct alignas(64) Unit : UnitCore {
  Link alive;
  Pieces pieces;

  // Where the saved part of a piece begins in its memory.
  // What was brought back of a fused unit lies as in its host copy.
  std::size_t From(const Piece& piece) const { return native ? piece.key.offset : piece.at; }

  RegionState* open_in = nullptr;  // a fused unit that still takes pieces
  HostBlock block;                 // host copy, valid or under way
  bool host_valid = false;         // the host copy holds the bytes once `out` is done
  EventRef out;                    // copy to host
  EventRef last_touch;             // the last copy that touches `block`
  Stream copied_on;                // and its stream
  EventRef ready;             // copy back; null when the host has seen it done or none is under way
  Stream ready_on;            // the last stream that waits for `ready`
  bool waited = false;        // some stream does
  Stream home;                // where memory brought back was allocated
  bool home_ordered = false;  // and freed in its order
  double issued_s = 0;        // host's clock at the last issue

  Tier::Ticket ticket = 0;  // a read or write under way; also one that was cancelled
  bool ticket_writes = false;
  bool ticket_on_block = false;  // it touches `block`, else the device memory
  Tier::Extent extent;           // what the tier below holds

  std::shared_ptr<Group> group;
  Link leaving, hosted, in_group;
};

// Where units live: side by side, taken and given back without allocation once there were as many.
// Not thread-safe: the table lock guards it.
class UnitPool {
 public:
  Unit& Take() {
    if (free_.empty()) Grow();
    Unit& unit = *free_.back();
    free_.pop_back();
    // The next one comes near while this one is filled in.
    if (!free_.empty()) Prefetch(*free_.back());
    return unit;
  }
  // Requires: the unit is as new.
  void Give(Unit& unit) noexcept { free_.push_back(&unit); }

  // Brings what most units use of themselves near. Reads nothing, so it needs no lock.
  static void Prefetch(const Unit& unit) {
    const char* at = reinterpret_cast<const char*>(&unit);
    __builtin_prefetch(at, 1);
    __builtin_prefetch(at + 64, 1);
  }

 private:
  static constexpr std::size_t kSlab = 64;
  [[gnu::noinline]] void Grow() {
    slabs_.push_back(std::make_unique<Unit[]>(kSlab));
    free_.reserve(slabs_.size() * kSlab);  // so that Give never throws
    for (std::size_t i = kSlab; i-- > 0;) free_.push_back(&slabs_.back()[i]);
  }

  std::vector<std::unique_ptr<Unit[]>> slabs_;
  std::vector<Unit*> free_;
};

// Units in an order, linked through themselves.
template <Link Unit::*kLink>
class UnitList {
 public:
  bool empty() const { return ends_.after == nullptr; }
  Unit* front() const { return ends_.after; }
  Unit* back() const { return ends_.before; }
  static Unit* After(const Unit& unit) { return (unit.*kLink).after; }
  static Unit* Before(const Unit& unit) { return (unit.*kLink).before; }
  bool Has(const Unit& unit) const { return Before(unit) != nullptr || front() == &unit; }

  void PushBack(Unit& unit) {
    unit.*kLink = {back(), nullptr};
    (back() != nullptr ? (back()->*kLink).after : ends_.after) = &unit;
    ends_.before = &unit;
  }
  void Remove(Unit& unit) {
    if (!Has(unit)) return;
    Link& link = unit.*kLink;
    (link.before != nullptr ? (link.before->*kLink).after : ends_.after) = link.after;
    (link.after != nullptr ? (link.after->*kLink).before : ends_.before) = link.before;
    link = {};
  }

 private:
  Link ends_;  // after: the first, before: the last
};

// Memory of a unit that is gone, or of a move that was undone, while a copy may still touch it.
struct Grave {
  EventRef until;
  Stream stream;            // on which `until` was recorded
  Tier::Ticket ticket = 0;  // and until this is finished
  bool ticket_writes = false;
  std::vector<DeviceBuffer> memory;
  HostBlock block;
};

// What is let go of once the lock is released: destructors and calls that must not run under it.
struct Trash {
  struct Block {
    HostBlock block;
    EventRef guard;
  };
  DeviceBuffer first;  // most units have one piece and one block: no allocation for them
  Block first_block;
  std::shared_ptr<const StorageWatch> first_watch;
  std::vector<DeviceBuffer> buffers;
  std::vector<Block> blocks;
  std::vector<std::shared_ptr<const StorageWatch>> watches;
  std::vector<Tier::Extent> extents;

  void Add(DeviceBuffer&& memory) {
    if (memory) Put(first, buffers, std::move(memory));
  }
  void Add(std::shared_ptr<const StorageWatch>&& watch) {
    if (watch) Put(first_watch, watches, std::move(watch));
  }
  void Add(HostBlock&& block, EventRef guard) {
    if (!first_block.block) {
      first_block = {std::move(block), std::move(guard)};
    } else {
      blocks.push_back({std::move(block), std::move(guard)});
    }
  }

 private:
  template <class T>
  static void Put(T& one, std::vector<T>& more, T value) {
    if (!one) {
      one = std::move(value);
    } else {
      more.push_back(std::move(value));
    }
  }
};

static_assert(sizeof(UnitCore) + sizeof(Link) == 64, "the first cache line of a unit");
static_assert(sizeof(Unit) / 64 % 2 == 1, "units side by side begin in every set of a cache");
static_assert(offsetof(Piece, at) + sizeof(std::size_t) <= 64, "the second, with the count");

}  // namespace restow::swap
