// What has been done to the bytes of one block, as far as a later access may conflict with it.
//
// The block is divided into segments; each remembers its last write and the reads since. Not
// thread-safe: the machine's lock covers it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "emulator/vector_clock.h"

namespace restow::emulator {

// The name of an operation, interned: equal names are equal pointers, alive until the process ends.
using Label = const std::string*;
Label Intern(const std::string& name);

enum class AccessKind { kAllocate, kRead, kWrite };

struct Access {
  AccessKind kind = AccessKind::kRead;
  Epoch epoch;
  Label label = nullptr;
};

// [begin, end), bytes from the start of the block.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class History {
 public:
  // A block of `bytes` whose whole content is `first`'s: an allocation or an operator's output.
  History(std::uint64_t bytes, const Access& first);

  // Notes the access and returns the earlier ones that it conflicts with and that `clock` has not
  // seen, each once. A read conflicts with writes and the allocation, a write with reads too.
  std::vector<Access> Read(ByteRange range, const Access& access, const VectorClock& clock);
  std::vector<Access> Write(ByteRange range, const Access& access, const VectorClock& clock);

  // What a free under `clock` is not ordered after; accesses of `excused` actors do not count.
  std::vector<Access> Unseen(const VectorClock& clock, const std::vector<Actor>& excused) const;

 private:
  struct Segment {
    std::uint64_t end = 0;
    Access write;
    std::vector<Access> reads;
  };
  using Segments = std::map<std::uint64_t, Segment>;

  // Makes `at` a boundary between segments.
  void Split(std::uint64_t at);
  // Divides segments so that they meet `range` exactly; the iterators span it.
  std::pair<Segments::iterator, Segments::iterator> Cut(ByteRange range);

  Segments segments_;
};

}  // namespace restow::emulator
