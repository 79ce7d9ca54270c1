#include "swap/file_tier/swap_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "restow/base/error.h"
#include "swap/file_tier/directory.h"
#include "swap/file_tier/leftovers.h"

namespace restow::swap::file_tier {
namespace {

constexpr mode_t kOwnerOnly = 0600;
// Space is reserved in steps: few calls, and contiguous on disk.
constexpr std::uint64_t kReserveStep = std::uint64_t{64} << 20;
constexpr std::uint64_t kEverything = std::numeric_limits<std::uint64_t>::max();
constexpr int kMostNames = 100;

struct DirectAlignment {
  bool known = false, supported = true;
  std::uint64_t file = 0, memory = 0;
};

// What the file system says direct I/O needs; kernels before 6.1 do not say.
DirectAlignment AskAlignment([[maybe_unused]] int fd) {
  DirectAlignment answer;
#ifdef STATX_DIOALIGN
  struct statx info {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0) return answer;
  if ((info.stx_mask & STATX_DIOALIGN) == 0) return answer;
  answer.known = true;
  answer.supported = info.stx_dio_offset_align != 0;
  answer.file = info.stx_dio_offset_align;
  answer.memory = info.stx_dio_mem_align;
#endif
  return answer;
}

bool LacksUnnamedFiles(int error) {
  return error == EOPNOTSUPP || error == EISDIR || error == EINVAL || error == ENOENT ||
         error == ENOSYS;
}

}  // namespace

SwapFile::SwapFile(FileOps& ops, const FileTierOptions& options)
    : ops_(ops),
      dir_path_(options.dir),
      dir_(OpenDirectory(options.dir)),
      alignment_(static_cast<std::uint64_t>(options.alignment.value())),
      cap_(static_cast<std::uint64_t>(options.byte_cap.value())) {
  Name();
  leftovers_removed_ = RemoveLeftovers(ops_, dir_.get());
  Create();
  ChooseDirect(options.direct_io);
}

SwapFile::~SwapFile() {
  lock_closed_in_children_.reset();
  if (named_) ops_.Unlink(dir_.get(), name_.c_str());
}

void SwapFile::Name() {
  name_ = NewSwapFileName();
  path_ = dir_path_ + (dir_path_.ends_with('/') ? "" : "/") + name_;
}

void SwapFile::Create() {
  int fd = ops_.Open(dir_.get(), ".", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, kOwnerOnly);
  if (fd >= 0) {
    file_ = Descriptor(fd);
  } else if (LacksUnnamedFiles(-fd)) {
    for (int tries = 0; tries < kMostNames && !CreateNamed(); ++tries) Name();
    fd = file_.get() < 0 ? -EEXIST : 0;
  }
  if (fd < 0) {
    ThrowBadInput(fmt::format("no file can be made in the directory for the file tier: {}; choose "
                              "one that this user may write to",
                              std::strerror(-fd)),
                  {dir_path_});
  }
  // Whatever the umask is. Where modes do not exist, the mount decides who may read.
  ::fchmod(file_.get(), kOwnerOnly);
}

// With a name, for as short as possible. False if another process took the name or the file.
bool SwapFile::CreateNamed() {
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const int fd = ops_.Open(dir_.get(), name_.c_str(), flags, kOwnerOnly);
  if (fd == -EEXIST) return false;
  if (fd < 0) {
    ThrowBadInput(fmt::format("the swap file cannot be made: {}; choose a directory that this user "
                              "may write to",
                              std::strerror(-fd)),
                  {path_});
  }
  file_ = Descriptor(fd);
  if (!LockNamed()) {
    ops_.Unlink(dir_.get(), name_.c_str());
    file_ = Descriptor();
    return false;
  }
  const int unlinked = ops_.Unlink(dir_.get(), name_.c_str());
  named_ = unlinked < 0 && unlinked != -ENOENT;
  if (named_) lock_closed_in_children_.emplace(lock_.get());
  if (!named_) lock_ = Descriptor();
  return true;
}

// False if another start took the file for a dead process's, and removes it.
bool SwapFile::LockNamed() {
  const int fd = ops_.Open(dir_.get(), name_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
  if (fd < 0) return false;
  lock_ = Descriptor(fd);
  struct stat made = {};
  struct stat locked = {};
  const bool same = ::fstat(file_.get(), &made) == 0 && ::fstat(fd, &locked) == 0 &&
                    made.st_dev == locked.st_dev && made.st_ino == locked.st_ino;
  return same && ops_.Lock(fd) != -EWOULDBLOCK;
}

void SwapFile::ChooseDirect(DirectIo wanted) {
  if (wanted == DirectIo::kOff) return;
  const std::string why = TryDirect();
  if (why.empty()) return;
  if (wanted == DirectIo::kOn) {
    ThrowUnsupported(fmt::format("direct I/O cannot be had here: {}; use DirectIo::kAuto to go "
                                 "through the page cache",
                                 why),
                     {dir_path_});
  }
  notes_ = fmt::format("Direct I/O is not used ({}); transfers go through the page cache. ", why);
}

// Empty when direct I/O is on; else why it is not.
std::string SwapFile::TryDirect() {
  const DirectAlignment needed = AskAlignment(file_.get());
  if (!needed.supported) return "the file system has none";
  const int set = ops_.SetDirect(file_.get(), true);
  if (set < 0) return fmt::format("the file system refuses it: {}", std::strerror(-set));
  if (needed.known) alignment_ = std::max(alignment_, needed.file);
  memory_alignment_ = needed.known ? std::max<std::uint64_t>(needed.memory, 1) : alignment_;
  direct_ = ProbeDirect();
  if (direct_) return "";
  ops_.SetDirect(file_.get(), false);
  memory_alignment_ = 1;
  return "the file system accepts the flag but refuses transfers";
}

// One block to and from the file. Other errors than a refusal are for the transfers to report.
bool SwapFile::ProbeDirect() {
  const std::size_t room = alignment_ + memory_alignment_;
  void* memory = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return true;
  std::size_t left = room;
  void* block = memory;
  std::align(memory_alignment_, alignment_, block, left);
  const bool refused = (::pwrite(file_.get(), block, alignment_, 0) < 0 && errno == EINVAL) ||
                       (::pread(file_.get(), block, alignment_, 0) < 0 && errno == EINVAL);
  ::munmap(memory, room);
  return !refused;
}

int SwapFile::Reserve(std::uint64_t end) {
  if (end <= reserved_.load(std::memory_order_acquire)) return 0;
  const std::lock_guard<std::mutex> lock(growing_);
  const std::uint64_t reserved = reserved_.load(std::memory_order_relaxed);
  if (end <= reserved) return 0;
  const std::uint64_t steps = (end - reserved + kReserveStep - 1) / kReserveStep;
  const std::uint64_t wanted = std::max(end, std::min(reserved + steps * kReserveStep, cap_));
  const int failed = Extend(wanted);
  // A disk that is nearly full may still have room for this one.
  return failed != 0 && wanted > end ? Extend(end) : failed;
}

int SwapFile::Extend(std::uint64_t end) {
  const std::uint64_t reserved = reserved_.load(std::memory_order_relaxed);
  int result = -EINTR;
  while (result == -EINTR) result = ops_.Allocate(file_.get(), reserved, end - reserved);
  const bool cannot = result == -EOPNOTSUPP || result == -ENOSYS;
  if (result < 0 && !cannot) return -result;
  if (cannot) end = kEverything;
  reserved_.store(end, std::memory_order_release);
  return 0;
}

}  // namespace restow::swap::file_tier
