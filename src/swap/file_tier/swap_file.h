// The tier's file: made so that it cannot be left behind, with direct I/O where that works, and
// grown on disk ahead of the writes.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "restow/swap/file_tier.h"
#include "swap/file_tier/descriptor.h"
#include "swap/file_tier/file_ops.h"
#include "swap/file_tier/fork.h"

namespace restow::swap::file_tier {

class SwapFile {
 public:
  // Errors: as FileTier's constructor.
  SwapFile(FileOps& ops, const FileTierOptions& options);
  ~SwapFile();
  SwapFile(const SwapFile&) = delete;
  SwapFile& operator=(const SwapFile&) = delete;

  // Makes sure that the file has space on disk for its first `end` bytes; 0 or an errno.
  // Threads: any; one at a time asks the kernel. On a file system that cannot reserve space, the
  // writes find out.
  int Reserve(std::uint64_t end);

  int fd() const { return file_.get(); }
  const std::string& dir() const { return dir_path_; }
  const std::string& path() const { return path_; }
  bool direct() const { return direct_; }
  std::uint64_t alignment() const { return alignment_; }
  std::uint64_t memory_alignment() const { return memory_alignment_; }
  int leftovers_removed() const { return leftovers_removed_; }
  const std::string& notes() const { return notes_; }

 private:
  void Name();
  void Create();
  bool CreateNamed();
  bool LockNamed();
  void ChooseDirect(DirectIo wanted);
  std::string TryDirect();
  bool ProbeDirect();
  int Extend(std::uint64_t end);

  FileOps& ops_;
  std::string dir_path_, name_, path_, notes_;
  Descriptor dir_, file_;
  // Of a file with a name. Not the one that transfers use: io_uring lets go of that some time after
  // its process died, and the lock with it.
  Descriptor lock_;
  std::optional<ClosedInChildren> lock_closed_in_children_;
  bool named_ = false, direct_ = false;
  std::uint64_t alignment_, memory_alignment_ = 1;
  int leftovers_removed_ = 0;
  std::uint64_t cap_;
  std::mutex growing_;
  std::atomic<std::uint64_t> reserved_{0};
};

}  // namespace restow::swap::file_tier
