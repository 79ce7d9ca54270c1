// The tier's file: made so that it cannot be left behind, with direct I/O where that works, and
// grown on disk ahead of the writes.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "restow/swap/file_tier.h"
#include "swap/file_tier/descriptor.h"
#include "swap/file_tier/file_ops.h"

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
  void Create();
  bool CreateNamed();
  void ChooseDirect(DirectIo wanted);
  std::string TryDirect();
  bool ProbeDirect();
  int Extend(std::uint64_t end);

  FileOps& ops_;
  std::string dir_path_, name_, path_, notes_;
  Descriptor dir_, file_;
  bool named_ = false, direct_ = false;
  std::uint64_t alignment_, memory_alignment_ = 1;
  int leftovers_removed_ = 0;
  std::uint64_t cap_;
  std::mutex growing_;
  std::atomic<std::uint64_t> reserved_{0};
};

}  // namespace restow::swap::file_tier
