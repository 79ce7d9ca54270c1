// From a storage's key to the unit that holds it: open addressing, no allocation in steady state.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "swap/unit.h"

namespace restow::swap {

// Linear probing with deletion by shifting back. At most a third is full: nearly every probe ends
// where it began. Not thread-safe but for Prefetch: the table lock guards it.
class KeyTable {
 public:
  struct Found {
    Unit* unit = nullptr;
    std::uint32_t piece = 0;
  };

  KeyTable() { Resize(64); }

  static std::uint32_t Hash(std::uint64_t identity) {
    // Fibonacci hashing; identities are often addresses, whose low bits are equal.
    return static_cast<std::uint32_t>((identity * 0x9E3779B97F4A7C15u) >> 32);
  }

  // Where a key of that hash stands comes near, so that the look-up need not wait for memory. Needs
  // no lock and reads no entry: while the table is being replaced it is of no use and does no harm.
  void Prefetch(std::uint32_t hash) const {
    const std::size_t at = hash & Mask();
    __builtin_prefetch(
        reinterpret_cast<const void*>(base_.load(std::memory_order_relaxed) + at * sizeof(Place)));
  }

  Found Find(const Key& key) {
    const std::uint32_t hash = Hash(key.identity);
    std::size_t i = hash & Mask();
    for (; places_[i].unit != nullptr; i = Next(i)) {
      const Place& place = places_[i];
      if (place.hash == hash && place.unit->pieces[place.piece].key == key) {
        return {place.unit, place.piece};
      }
    }
    missed_ = i;
    missed_hash_ = hash;
    return {};
  }

  // Requires: the key of that piece is absent.
  void Insert(Unit& unit, std::uint32_t piece) {
    if (3 * ++size_ > places_.size()) Resize(2 * places_.size());
    Put({&unit, Hash(unit.pieces[piece].key.identity), piece});
  }

  // Requires: the key of that piece is there.
  void Erase(const Unit& unit, std::uint32_t piece) {
    std::size_t hole = Hash(unit.pieces[piece].key.identity) & Mask();
    while (places_[hole].unit != &unit || places_[hole].piece != piece) hole = Next(hole);
    --size_;
    for (std::size_t i = Next(hole); places_[i].unit != nullptr; i = Next(i)) {
      // An entry may fill the hole unless its home lies after the hole, up to itself.
      const std::size_t distance_home = (i - places_[i].hash) & Mask();
      const std::size_t distance_hole = (i - hole) & Mask();
      if (distance_home < distance_hole) continue;
      places_[hole] = places_[i];
      hole = i;
    }
    places_[hole] = {};
    missed_ = kNowhere;
  }

  std::size_t size() const { return size_; }

  // Calls `visit(unit, piece)` for each entry whose key has that identity.
  template <class Visit>
  void ForEach(std::uint64_t identity, Visit visit) const {
    const std::uint32_t hash = Hash(identity);
    for (std::size_t i = hash & Mask(); places_[i].unit != nullptr; i = Next(i)) {
      const Place& place = places_[i];
      if (place.hash != hash || place.unit->pieces[place.piece].key.identity != identity) continue;
      visit(*place.unit, place.piece);
    }
  }

 private:
  // Small, so that four fit a cache line; the key itself stands in the piece.
  struct Place {
    Unit* unit = nullptr;
    std::uint32_t hash = 0;
    std::uint32_t piece = 0;
  };
  static constexpr std::size_t kNowhere = ~std::size_t{0};

  std::size_t Mask() const { return mask_.load(std::memory_order_relaxed); }
  std::size_t Next(std::size_t i) const { return (i + 1) & Mask(); }

  void Put(const Place& place) {
    // Where the search for it just ended, if nothing has changed since.
    const bool missed = missed_ != kNowhere && missed_hash_ == place.hash;
    std::size_t i = missed ? missed_ : place.hash & Mask();
    while (places_[i].unit != nullptr) i = Next(i);
    places_[i] = place;
    missed_ = kNowhere;
  }

  [[gnu::noinline]] void Resize(std::size_t size) {
    std::vector<Place> old(size);
    old.swap(places_);
    missed_ = kNowhere;
    base_.store(reinterpret_cast<std::uintptr_t>(places_.data()), std::memory_order_relaxed);
    mask_.store(size - 1, std::memory_order_relaxed);
    for (const Place& place : old) {
      if (place.unit != nullptr) Put(place);
    }
  }

  std::vector<Place> places_;
  std::size_t size_ = 0;
  std::size_t missed_ = kNowhere;  // the empty place at which the last search ended
  std::uint32_t missed_hash_ = 0;
  std::atomic<std::uintptr_t> base_{0};
  std::atomic<std::size_t> mask_{0};
};

}  // namespace restow::swap
