#include "swap/file_tier/space.h"

#include <algorithm>
#include <iterator>

namespace restow::swap::file_tier {
namespace {

void Append(std::vector<Range>& ranges, std::size_t first, const Range& range) {
  if (ranges.size() > first && ranges.back().end() == range.offset) {
    ranges.back().size += range.size;
  } else {
    ranges.push_back(range);
  }
}

}  // namespace

void Space::AddHole(std::uint64_t offset, std::uint64_t size) {
  size_at_.emplace(offset, size);
  by_size_.emplace(size, offset);
}

void Space::RemoveHole(Hole hole) {
  by_size_.erase({hole->second, hole->first});
  size_at_.erase(hole);
}

// The front of a hole.
Range Space::TakeFrom(Hole hole, std::uint64_t size) {
  const Range all{hole->first, hole->second};
  RemoveHole(hole);
  if (all.size > size) AddHole(all.offset + size, all.size - size);
  return {all.offset, std::min(size, all.size)};
}

Range Space::Grow(std::uint64_t size) {
  const Range range{end_, size};
  end_ += size;
  return range;
}

bool Space::Take(std::uint64_t size, std::vector<Range>& ranges) {
  if (size > cap_ - used_) return false;
  used_ += size;
  if (size == 0) return true;
  const auto best = by_size_.lower_bound({size, 0});
  if (best != by_size_.end()) {
    ranges.push_back(TakeFrom(size_at_.find(best->second), size));
    return true;
  }
  const std::size_t first = ranges.size();
  while (size > 0 && !by_size_.empty()) {
    const Range range = TakeFrom(size_at_.find(std::prev(by_size_.end())->second), size);
    Append(ranges, first, range);
    size -= range.size;
  }
  if (size > 0) Append(ranges, first, Grow(size));
  return true;
}

void Space::Give(const Range& range) {
  used_ -= range.size;
  Range hole = range;
  Hole after = size_at_.lower_bound(range.offset);
  if (after != size_at_.end() && after->first == hole.end()) {
    hole.size += after->second;
    const Hole next = std::next(after);
    RemoveHole(after);
    after = next;
  }
  if (after != size_at_.begin()) {
    const Hole before = std::prev(after);
    if (before->first + before->second == hole.offset) {
      hole = {before->first, before->second + hole.size};
      RemoveHole(before);
    }
  }
  AddHole(hole.offset, hole.size);
}

}  // namespace restow::swap::file_tier
