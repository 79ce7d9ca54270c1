// Moving bytes between memory and the file: one transfer, and a queue that carries transfers out.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace restow::swap::file_tier {

struct Transfer {
  bool write = false;
  void* data = nullptr;
  std::size_t size = 0;
  std::uint64_t offset = 0;
  ssize_t result = 0;  // bytes moved, maybe fewer than `size`, or -errno
};

// Threads: one thread uses a queue; only Wake may be called from others.
class TransferQueue {
 public:
  virtual ~TransferQueue() = default;

  // Owns: the transfer stays the caller's, in place, until Wait returns it.
  virtual void Submit(Transfer* transfer) = 0;
  // The next transfer that is over, or null after Wake. Requires: something in flight.
  virtual Transfer* Wait() = 0;
  // Makes a Wait that blocks, or the next one, return.
  virtual void Wake() noexcept = 0;
};

// `depth` transfers at most through an io_uring of its own. Null where the kernel, a filter or a
// limit forbids it; `why` then says what.
std::unique_ptr<TransferQueue> MakeRingQueue(int fd, int depth, std::string& why);
// One transfer at a time, done within Submit by pread or pwrite.
std::unique_ptr<TransferQueue> MakeBlockingQueue(int fd);

}  // namespace restow::swap::file_tier
