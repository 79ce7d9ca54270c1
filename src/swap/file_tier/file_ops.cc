#include "swap/file_tier/file_ops.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace restow::swap::file_tier {
namespace {

int Result(int value) { return value < 0 ? -errno : value; }

}  // namespace

int FileOps::Open(int dir, const char* name, int flags, mode_t mode) {
  return Result(::openat(dir, name, flags, mode));
}

int FileOps::Unlink(int dir, const char* name) { return Result(::unlinkat(dir, name, 0)); }

int FileOps::Lock(int fd) { return Result(::flock(fd, LOCK_EX | LOCK_NB)); }

int FileOps::SetDirect(int fd, bool direct) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return -errno;
  return Result(::fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT));
}

int FileOps::Allocate(int fd, std::uint64_t offset, std::uint64_t size) {
  return Result(::fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(size)));
}

std::unique_ptr<TransferQueue> FileOps::MakeRing(int fd, int depth, std::string& why) {
  return MakeRingQueue(fd, depth, why);
}

std::unique_ptr<TransferQueue> FileOps::MakeBlocking(int fd) { return MakeBlockingQueue(fd); }

}  // namespace restow::swap::file_tier
