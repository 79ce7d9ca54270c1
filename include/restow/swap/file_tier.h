// The file tier: byte blobs kept in one file of a directory, written and read off the compute
// threads.
//
// A blob is written with StartWrite, read back any number of times with StartRead, and given up
// with Release. Both starts return a ticket at once; the transfer runs on the tier's own threads
// (io_uring where the kernel allows it, else pread and pwrite). Blobs live as long as the tier and
// never outlive the process: the file has no name, so that nothing is left after a crash either.
//
// Faults. A write that fails leaves the caller's bytes alone: keep the tensor. A read that fails,
// or whose checksum is wrong, is tried once more and then reported. Neither harms other blobs, and
// the next call works.
//
// Threads: every call may come from any thread. Only Wait blocks, besides construction and
//   destruction; no lock is held across a system call that transfers or allocates.
// Owns: the tier owns its file. A buffer handed to a start stays the caller's, and must stay alive,
//   and for a write unchanged, until Done says true or Wait returns or throws.
// Fork: a child cannot use a tier made before the fork: calls throw, and the child's copy of the
//   file is closed. A child makes its own tier. The parent goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "restow/base/quantity.h"

namespace restow::swap {

namespace file_tier {
class FileOps;
}  // namespace file_tier

// Direct I/O goes past the page cache, which would otherwise hold a second copy in host memory.
enum class DirectIo {
  kAuto,  // where the file system allows it
  kOn,    // or an error
  kOff,
};

enum class FileBackend {
  kAuto,     // io_uring where the kernel and its filters allow it, else threads
  kRing,     // io_uring, or an error
  kThreads,  // pread and pwrite
};

struct FileTierOptions {
  // An existing directory; it is not created, so that a disk that is not mounted is noticed.
  // Symbolic links on the way are followed only if root or this user made them.
  std::string dir;
  // The most the file may take on disk. Counted per tier: ranks of a node share the disk by caps.
  Bytes byte_cap{std::numeric_limits<std::int64_t>::max()};
  // XXH3, 64 bits per transfer, checked at each read. Turning it off holds under direct I/O only:
  // through the page cache a failed write is otherwise never noticed.
  bool checksums = true;
  DirectIo direct_io = DirectIo::kAuto;
  FileBackend backend = FileBackend::kAuto;
  // Threads that check, copy and transfer; 0 means 2 with io_uring, else one per transfer in
  // flight.
  int threads = 0;
  // Transfers in flight, over all threads: 1 to 1,024.
  int queue_depth = 16;
  // Blobs are cut into transfers of at most this many bytes: a multiple of `alignment`, up to 1
  // GiB.
  Bytes transfer_bytes{kMiB};
  // Blobs start and end at multiples of this in the file: a power of two, 512 B to 1 MiB. Raised to
  // what direct I/O demands.
  Bytes alignment{4 * kKiB};
};

// A blob in the file. Errors: using it after Release is a usage error, never another blob's bytes.
struct FileExtent {
  std::uint64_t id = 0;
  std::size_t size = 0;  // bytes
};

// One transfer under way. Every ticket is given to Wait once.
struct FileTicket {
  std::uint64_t id = 0;
};

// What was found when the tier was made.
struct FileTierFacts {
  std::string path;  // how messages name the file; nothing of that name need exist
  bool ring = false;
  bool direct_io = false;
  bool checksums = true;
  int threads = 0;
  Bytes alignment;            // of offsets and sizes in the file
  Bytes memory_alignment;     // buffers at multiples of it go to the device without a copy
  int leftovers_removed = 0;  // files of dead processes
  std::string notes;  // why io_uring or direct I/O is not used, in sentences; empty if both are
};

struct FileTierStats {
  // SUM over the tier's life.
  std::int64_t writes = 0, reads = 0;  // blobs that arrived whole
  std::int64_t failed_writes = 0, failed_reads = 0;
  std::int64_t refused = 0;          // writes above the cap; not among the failed
  Bytes bytes_written, bytes_read;   // of blobs that arrived whole
  Bytes bytes_copied;                // through aligned buffers, because the caller's was not
  std::int64_t short_transfers = 0;  // carried on from where they stopped
  std::int64_t rereads = 0;          // after an error or a wrong checksum
  // Now.
  std::int64_t blobs = 0;  // written or being written, not yet released
  Bytes live_bytes;        // space they take, in units of `alignment`
  Bytes file_bytes;        // space handed out at the peak of live_bytes; the file never shrinks
  std::int64_t unfinished = 0;  // tickets not done
};

class FileTier {
 public:
  // Removes what dead processes left in `dir`, makes the file (mode 0600, no name) and starts the
  // threads. Errors: kUsage for options out of range, kBadInput for a directory that is missing, is
  // not ours to write to or is reached through another user's link, kUnsupported for a kOn or kRing
  // that cannot be had.
  explicit FileTier(const FileTierOptions& options);
  // With another way to reach the kernel; for tests.
  FileTier(const FileTierOptions& options, std::unique_ptr<file_tier::FileOps> ops);
  // Waits for transfers in flight, drops those queued, removes the file. Never throws.
  // Requires: no other call under way or to come. Buffers are free again when it returns.
  ~FileTier();
  FileTier(const FileTier&) = delete;
  FileTier& operator=(const FileTier&) = delete;

  // Begins to write `size` bytes as a new blob. Above the cap the ticket has failed already: Wait
  // says so. Errors: kUsage for a null buffer.
  FileTicket StartWrite(const void* data, std::size_t size);
  // Begins to read the whole blob into `data`, which has room for extent.size bytes. They are
  // unspecified until Wait returns. Reads overtake queued writes.
  // Errors: kUsage for a null buffer or an extent that is not alive.
  FileTicket StartRead(const FileExtent& extent, void* data);
  // Whether Wait would return at once. Errors: kUsage for a ticket already waited for.
  bool Done(FileTicket ticket) const;
  // Blocks until the transfer is over and takes the ticket back. Returns the blob written or read.
  // Errors: kBadInput, naming file, offset, cause and remedy. A failed write leaves no blob; after
  // a failed read the blob is still there. kUsage for a ticket already waited for.
  FileExtent Wait(FileTicket ticket);
  // Gives the blob up; its space is used again, once reads of it under way are over.
  // Errors: kUsage for an extent that is not alive.
  void Release(const FileExtent& extent);

  FileTierStats stats() const;
  const FileTierFacts& facts() const;

 private:
  struct Impl;
  void CheckProcess() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace restow::swap
