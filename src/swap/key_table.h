// From a storage's key to the unit that holds it: open addressing, no allocation in steady state.
#pragma once

#include <cstdint>
#include <vector>

#include "swap/unit.h"

namespace restow::swap {

// Linear probing with deletion by shifting back. Not thread-safe: the table lock guards it.
class KeyTable {
 public:
  struct Found {
    Unit* unit = nullptr;
    std::uint32_t piece = 0;
  };

  KeyTable() : places_(64) {}

  Found Find(const Key& key) const {
    for (std::size_t i = Home(key.identity); places_[i].unit != nullptr; i = Next(i)) {
      const Place& place = places_[i];
      if (place.identity == key.identity && place.unit->pieces[place.piece].key == key) {
        return {place.unit, place.piece};
      }
    }
    return {};
  }

  // Requires: the key of that piece is absent.
  void Insert(Unit& unit, std::uint32_t piece) {
    if (3 * ++size_ > 2 * places_.size()) Grow();
    Put({unit.pieces[piece].key.identity, &unit, piece});
  }

  // Requires: the key of that piece is there.
  void Erase(const Unit& unit, std::uint32_t piece) {
    std::size_t hole = Home(unit.pieces[piece].key.identity);
    while (places_[hole].unit != &unit || places_[hole].piece != piece) hole = Next(hole);
    --size_;
    for (std::size_t i = Next(hole); places_[i].unit != nullptr; i = Next(i)) {
      // An entry may fill the hole unless its home lies after the hole, up to itself.
      const std::size_t distance_home = (i - Home(places_[i].identity)) & Mask();
      const std::size_t distance_hole = (i - hole) & Mask();
      if (distance_home < distance_hole) continue;
      places_[hole] = places_[i];
      hole = i;
    }
    places_[hole] = {};
  }

  std::size_t size() const { return size_; }

  // Calls `visit(identity, unit, piece)` for each entry.
  template <class Visit>
  void ForEach(Visit visit) const {
    for (const Place& place : places_) {
      if (place.unit != nullptr) visit(place.identity, *place.unit, place.piece);
    }
  }

 private:
  // Small, so that many fit a cache line; the rest of the key stands in the piece.
  struct Place {
    std::uint64_t identity = 0;
    Unit* unit = nullptr;
    std::uint32_t piece = 0;
  };

  std::size_t Mask() const { return places_.size() - 1; }
  std::size_t Next(std::size_t i) const { return (i + 1) & Mask(); }

  std::size_t Home(std::uint64_t identity) const {
    // Fibonacci hashing; identities are often addresses, whose low bits are equal.
    const std::uint64_t hash = identity * 0x9E3779B97F4A7C15u;
    return static_cast<std::size_t>(hash >> 32) & Mask();
  }

  void Put(const Place& place) {
    std::size_t i = Home(place.identity);
    while (places_[i].unit != nullptr) i = Next(i);
    places_[i] = place;
  }

  void Grow() {
    std::vector<Place> old(places_.size() * 2);
    old.swap(places_);
    for (const Place& place : old) {
      if (place.unit != nullptr) Put(place);
    }
  }

  std::vector<Place> places_;
  std::size_t size_ = 0;
};

}  // namespace restow::swap
