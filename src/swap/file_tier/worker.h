// One of the tier's threads: takes pieces, checks and copies where needed, and keeps its queue of
// transfers full.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "swap/file_tier/bounce.h"
#include "swap/file_tier/swap_file.h"
#include "swap/file_tier/table.h"
#include "swap/file_tier/transfer.h"

namespace restow::swap::file_tier {

struct WorkerOptions {
  int index = 0;  // 0 to 63
  int depth = 1;  // transfers in flight
  bool checksums = true;
  std::size_t transfer_bytes = 0;
};

class Worker {
 public:
  Worker(Table& table, SwapFile& file, std::unique_ptr<TransferQueue> queue,
         const WorkerOptions& options);

  // Until the table is stopped and nothing is in flight. Threads: the worker's own.
  void Run();
  // Threads: any.
  void Wake() noexcept { queue_->Wake(); }

 private:
  // One transfer that this worker has in flight, or room for one.
  struct Slot {
    Transfer transfer;  // first: the queue hands back its address
    Work work;
    WorkResult result;
    Bounce bounce;
    bool bounced = false;
    std::size_t total = 0, done = 0;  // bytes in the file, padding included
    int stalls = 0;                   // transfers in a row that moved nothing
  };

  void Fill();
  void Begin(Slot& slot);
  bool Prepare(Slot& slot);
  bool ChooseBuffer(Slot& slot);
  void Submit(Slot& slot);
  void Completed(Slot& slot);
  void Stalled(Slot& slot, int error);
  void Arrived(Slot& slot);
  // Once per piece; false when that was used up.
  bool ReadAgain(Slot& slot);
  void Fail(Slot& slot, Failure::Kind kind, int error);
  void End(Slot& slot);
  char* memory(const Slot& slot) const {
    return slot.bounced ? slot.bounce.data() : slot.work.data();
  }

  Table& table_;
  SwapFile& file_;
  std::unique_ptr<TransferQueue> queue_;
  const WorkerOptions options_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> free_;
};

}  // namespace restow::swap::file_tier
