// A store below host memory, as the engine sees it: blobs of bytes that are written once, read any
// number of times and released. The file tier is one; tests use one in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace restow::swap {

// Threads: all calls from any thread. Only Wait blocks. Buffers belong to the caller, who leaves
// them untouched (a write's) or unread (a read's) until the ticket is finished.
class Tier {
 public:
  // What a finished write gave; the numbers mean what the tier says. `bytes` 0: nothing.
  struct Extent {
    std::uint64_t place = 0;
    std::uint64_t bytes = 0;
    std::uint64_t check = 0;
  };
  using Ticket = std::uint64_t;  // never 0

  virtual ~Tier() = default;

  // Errors: throws when the write cannot even begin (a byte cap, a closed tier).
  virtual Ticket StartWrite(const void* data, std::size_t bytes) = 0;
  virtual Ticket StartRead(const Extent& extent, void* into) = 0;
  // Finished, well or not? Does not wait. The ticket stays valid until Wait.
  virtual bool Poll(Ticket ticket) noexcept = 0;
  // Waits, ends the ticket, and gives the extent written or read.
  // Errors: throws restow::Error naming the file when the work failed; a failed write holds no
  // space, a failed read leaves the extent as it was.
  virtual Extent Wait(Ticket ticket) = 0;
  virtual void Release(const Extent& extent) noexcept = 0;
};

// A tier of files in `dir`. Units: bytes; `byte_cap` below 0: none.
// Errors: unsupported, where this build has no file tier.
std::shared_ptr<Tier> OpenFileTier(const std::string& dir, std::int64_t byte_cap);

}  // namespace restow::swap
