// Blobs, tickets and the queue of transfers: all of the tier's state, under one lock.
//
// A blob is cut into pieces, the unit of work. Callers add jobs; workers take pieces and report
// each one. The lock is never held across a system call on the file or a wait for one.
// Threads: any, unless said otherwise.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "restow/swap/file_tier.h"
#include "swap/file_tier/failure.h"
#include "swap/file_tier/space.h"

namespace restow::swap::file_tier {

// Part of a blob that is one transfer.
struct Piece {
  std::uint64_t file_offset = 0;
  std::size_t blob_offset = 0;
  std::size_t size = 0;        // bytes of the blob; the file has them rounded up to its alignment
  std::uint64_t checksum = 0;  // set by the write, used by reads
};

// Slots keep their place in memory, so that workers may use them without the lock. `generation`
// goes up when a slot is freed: an id with an older one is stale.
struct Extent {
  std::uint32_t index = 0, generation = 1;
  std::size_t size = 0;
  std::vector<Piece> pieces;
  std::vector<Range> ranges;
  int readers = 0;
  bool live = false;  // written, and not released
};

struct Job {
  std::uint32_t index = 0, generation = 1;
  bool write = false;
  char* data = nullptr;  // a write only reads it
  Extent* extent = nullptr;
  FileExtent result;
  std::size_t next = 0;       // first piece not taken
  std::size_t in_flight = 0;  // taken, not finished
  bool active = false, done = false;
  Failure failure;  // the first
};

// A piece as a worker gets it.
struct Work {
  Job* job = nullptr;
  Piece* piece = nullptr;

  char* data() const { return job->data + piece->blob_offset; }
};

struct WorkResult {
  Failure failure;
  std::int64_t short_transfers = 0, rereads = 0, copied = 0;
};

// Slots by index, freed ones first.
template <class Slot>
class Slots {
 public:
  Slot& Get() {
    if (free_.empty()) {
      const auto index = static_cast<std::uint32_t>(slots_.size());
      slots_.emplace_back().index = index;
      return slots_.back();
    }
    Slot& slot = slots_[free_.back()];
    free_.pop_back();
    return slot;
  }
  void Free(Slot& slot) {
    ++slot.generation;
    free_.push_back(slot.index);
  }
  static std::uint64_t IdOf(const Slot& slot) {
    return std::uint64_t{slot.generation} << 32 | slot.index;
  }
  // Null for an id that is not of now.
  Slot* Find(std::uint64_t id) {
    const auto index = static_cast<std::uint32_t>(id);
    if (index >= slots_.size() || IdOf(slots_[index]) != id) return nullptr;
    return &slots_[index];
  }

 private:
  std::deque<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

struct TableOptions {
  std::uint64_t cap = 0, alignment = 0, transfer_bytes = 0;
  // Transfers in flight, over all workers: one that gets to run takes what others leave.
  int depth = 1;
  // Wakes worker i (0 to 63) that waits for transfers although it could take more work.
  std::function<void(int)> wake;
};

class Table {
 public:
  explicit Table(TableOptions options) : options_(std::move(options)), space_(options_.cap) {}

  // For callers. Errors: kUsage, as FileTier says.
  FileTicket AddWrite(const void* data, std::size_t size);
  FileTicket AddRead(const FileExtent& extent, void* data);
  bool Done(FileTicket ticket) const;
  struct Outcome {
    FileExtent extent;
    Failure failure;
    bool write = false;
  };
  // Takes the ticket back.
  Outcome Wait(FileTicket ticket);
  void Release(const FileExtent& extent);
  FileTierStats stats() const;
  std::uint64_t used() const;

  // For workers. TryTake's false means that `worker` is woken through `wake` when there is more, or
  // that the depth is used up: whoever finishes a transfer then asks for the next.
  bool TryTake(int worker, Work& work);
  // Blocks until there may be work; false after Stop.
  bool AwaitWork(int worker);
  void Finish(const Work& work, const WorkResult& result);
  // Drops what is queued, and lets workers go.
  void Stop();

 private:
  using Lock = std::unique_lock<std::mutex>;

  Job& NewJob(bool write, char* data, Extent* extent);
  Job& FindJob(FileTicket ticket) const;
  Extent& FindLive(const FileExtent& extent) const;
  void Cut(Extent& extent);
  void Enqueue(Lock lock, Job& job);
  std::deque<Job*>& QueueOf(const Job& job) { return job.write ? writes_ : reads_; }
  void CompleteIfOver(Job& job);
  void Count(const Job& job);
  void FreeExtent(Extent& extent);

  const TableOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable work_, done_;
  mutable Slots<Extent> extents_;
  mutable Slots<Job> jobs_;
  std::deque<Job*> reads_, writes_;  // jobs with pieces not taken
  std::uint64_t wakeable_ = 0;       // workers, as bits
  int in_flight_ = 0;
  bool stopped_ = false;
  Space space_;
  FileTierStats stats_;
};

}  // namespace restow::swap::file_tier
