// Which parts of the file are free. Whole blobs go where they fit best; what fits nowhere whole is
// cut over the largest holes before the file grows, so that the file's end is exactly the peak of
// the bytes in use, and steady use never makes it grow.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace restow::swap::file_tier {

// Bytes [offset, offset + size) of the file.
struct Range {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;

  std::uint64_t end() const { return offset + size; }
  friend bool operator==(const Range&, const Range&) = default;
};

// Threads: none of its own; the caller locks.
class Space {
 public:
  explicit Space(std::uint64_t cap) : cap_(cap) {}

  // Appends ranges of `size` bytes together. False, and nothing taken, above the cap.
  // Requires: every size is a multiple of one alignment, which the ranges then keep.
  bool Take(std::uint64_t size, std::vector<Range>& ranges);
  void Give(const Range& range);

  std::uint64_t used() const { return used_; }
  std::uint64_t end() const { return end_; }
  std::uint64_t cap() const { return cap_; }

 private:
  using Hole = std::map<std::uint64_t, std::uint64_t>::iterator;

  void AddHole(std::uint64_t offset, std::uint64_t size);
  void RemoveHole(Hole hole);
  Range TakeFrom(Hole hole, std::uint64_t size);
  Range Grow(std::uint64_t size);

  std::uint64_t cap_, used_ = 0, end_ = 0;
  std::map<std::uint64_t, std::uint64_t> size_at_;             // offset -> size, never touching
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (size, offset) of the same
};

}  // namespace restow::swap::file_tier
