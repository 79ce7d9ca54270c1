// What the tier asks of the kernel about its file: the seam that tests put faults into.
//
// Results are >= 0 or -errno. Threads: Allocate and MakeQueue's queues are used by the tier's
// threads, the rest by the thread that makes or destroys the tier.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "swap/file_tier/transfer.h"

namespace restow::swap::file_tier {

class FileOps {
 public:
  virtual ~FileOps() = default;

  virtual int Open(int dir, const char* name, int flags, mode_t mode);
  virtual int Unlink(int dir, const char* name);
  // Takes the file's lock, or -EWOULDBLOCK where another process has it.
  virtual int Lock(int fd);
  virtual int SetDirect(int fd, bool direct);
  // Reserves bytes [offset, offset + size) on disk.
  virtual int Allocate(int fd, std::uint64_t offset, std::uint64_t size);
  // Null, and why, where the kernel has no io_uring for us.
  virtual std::unique_ptr<TransferQueue> MakeRing(int fd, int depth, std::string& why);
  virtual std::unique_ptr<TransferQueue> MakeBlocking(int fd);
};

}  // namespace restow::swap::file_tier
