#include "restow/swap/file_tier.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <bit>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "restow/base/error.h"
#include "swap/file_tier/file_ops.h"
#include "swap/file_tier/fork.h"
#include "swap/file_tier/swap_file.h"
#include "swap/file_tier/table.h"
#include "swap/file_tier/worker.h"

namespace restow::swap {
namespace {

using file_tier::FileOps;
using file_tier::SwapFile;
using file_tier::Table;
using file_tier::TransferQueue;
using file_tier::Worker;

constexpr int kMostThreads = 64;  // the table keeps them as bits of one word
constexpr int kDeepest = 1024;
constexpr int kRingThreads = 2;  // one checks while the other's transfers are collected

void Require(bool holds, const char* option, std::int64_t value, const char* allowed) {
  if (!holds) ThrowUsage(fmt::format("FileTierOptions::{} is {}; {}", option, value, allowed));
}

FileTierOptions Checked(const FileTierOptions& options) {
  const std::int64_t alignment = options.alignment.value();
  const std::int64_t transfer = options.transfer_bytes.value();
  Require(options.byte_cap.value() > 0, "byte_cap", options.byte_cap.value(), "use 1 B or more");
  Require(options.threads >= 0 && options.threads <= kMostThreads, "threads", options.threads,
          "use 0 (automatic) to 64");
  Require(options.queue_depth >= 1 && options.queue_depth <= kDeepest, "queue_depth",
          options.queue_depth, "use 1 to 1,024");
  Require(alignment >= 512 && alignment <= kMiB &&
              std::has_single_bit(static_cast<std::uint64_t>(alignment)),
          "alignment", alignment, "use a power of two from 512 B to 1 MiB");
  Require(transfer >= alignment && transfer % alignment == 0 && transfer <= kGiB, "transfer_bytes",
          transfer, "use a multiple of alignment, up to 1 GiB");
  return options;
}

// Direct I/O may demand larger blocks than the options expect.
std::uint64_t TransferBytes(const SwapFile& file, const FileTierOptions& options) {
  return std::max(static_cast<std::uint64_t>(options.transfer_bytes.value()), file.alignment());
}

// What one of several rings may have in flight: more than its share, for when other threads wait
// for a processor; less than all, so that checksums are not left to one thread.
int RingDepth(int queue_depth, int rings) {
  const int share = (queue_depth + rings - 1) / rings;
  return std::min(queue_depth, share + share / 2);
}

// The tier's threads take no signals: those are for the program's own, and one for a file that
// grows too large (SIGXFSZ) becomes an error of the write.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

struct FileTier::Impl {
  Impl(const FileTierOptions& wanted, std::unique_ptr<FileOps> file_ops);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::vector<std::unique_ptr<TransferQueue>> MakeQueues();
  std::vector<std::unique_ptr<TransferQueue>> MakeRings(std::string& why);
  void StartThreads();
  void StopThreads();
  void DescribeFacts();

  const FileTierOptions options;
  const unsigned generation = file_tier::ForkGeneration();
  std::unique_ptr<FileOps> ops;
  SwapFile file;
  const file_tier::ClosedInChildren closed_in_children{file.fd()};
  FileTierFacts facts;
  Table table;
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::thread> threads;
};

FileTier::Impl::Impl(const FileTierOptions& wanted, std::unique_ptr<FileOps> file_ops)
    : options(Checked(wanted)),
      ops(std::move(file_ops)),
      file(*ops, options),
      table({static_cast<std::uint64_t>(options.byte_cap.value()), file.alignment(),
             TransferBytes(file, options), options.queue_depth,
             [this](int worker) { workers[static_cast<std::size_t>(worker)]->Wake(); }}) {
  DescribeFacts();
  std::vector<std::unique_ptr<TransferQueue>> queues = MakeQueues();
  facts.threads = static_cast<int>(queues.size());
  const auto transfer_bytes = static_cast<std::size_t>(TransferBytes(file, options));
  for (std::unique_ptr<TransferQueue>& queue : queues) {
    const int index = static_cast<int>(workers.size());
    workers.push_back(std::make_unique<Worker>(
        table, file, std::move(queue),
        file_tier::WorkerOptions{index,
                                 facts.ring ? RingDepth(options.queue_depth, facts.threads) : 1,
                                 facts.checksums, transfer_bytes}));
  }
  StartThreads();
}

FileTier::Impl::~Impl() { StopThreads(); }

void FileTier::Impl::DescribeFacts() {
  facts.path = file.path();
  facts.direct_io = file.direct();
  facts.checksums = options.checksums || !file.direct();
  facts.alignment = Bytes(static_cast<std::int64_t>(file.alignment()));
  facts.memory_alignment = Bytes(static_cast<std::int64_t>(file.memory_alignment()));
  facts.leftovers_removed = file.leftovers_removed();
  facts.notes = file.notes();
  if (facts.checksums != options.checksums) {
    facts.notes += "Checksums stay on: through the page cache a failed write goes unnoticed. ";
  }
}

std::vector<std::unique_ptr<TransferQueue>> FileTier::Impl::MakeQueues() {
  std::vector<std::unique_ptr<TransferQueue>> queues;
  if (options.backend != FileBackend::kThreads) {
    std::string why;
    queues = MakeRings(why);
    facts.ring = !queues.empty();
    if (facts.ring) return queues;
    if (options.backend == FileBackend::kRing) {
      ThrowUnsupported(why + "; use FileBackend::kAuto to go on with threads", {options.dir});
    }
    facts.notes += why + "; threads with pread and pwrite are used. ";
  }
  const int count =
      options.threads > 0 ? options.threads : std::min(options.queue_depth, kMostThreads);
  for (int i = 0; i < count; ++i) queues.push_back(ops->MakeBlocking(file.fd()));
  return queues;
}

// All rings, or none and why.
std::vector<std::unique_ptr<TransferQueue>> FileTier::Impl::MakeRings(std::string& why) {
  std::vector<std::unique_ptr<TransferQueue>> queues;
  const int wanted = options.threads > 0 ? options.threads : kRingThreads;
  const int count = std::min(wanted, options.queue_depth);
  for (int i = 0; i < count; ++i) {
    queues.push_back(ops->MakeRing(file.fd(), RingDepth(options.queue_depth, count), why));
    if (queues.back() == nullptr) return {};
  }
  return queues;
}

void FileTier::Impl::StartThreads() {
  const SignalsBlocked blocked;
  try {
    for (const std::unique_ptr<Worker>& worker : workers) {
      threads.emplace_back([each = worker.get()] { each->Run(); });
      pthread_setname_np(threads.back().native_handle(), "restow-file");
    }
  } catch (const std::system_error& error) {
    StopThreads();
    ThrowUnsupported(
        fmt::format("the file tier's threads cannot be started: {}; allow this "
                    "process more threads (ulimit -u)",
                    error.what()));
  }
}

void FileTier::Impl::StopThreads() {
  table.Stop();
  for (std::thread& thread : threads) thread.join();
  threads.clear();
}

FileTier::FileTier(const FileTierOptions& options)
    : FileTier(options, std::make_unique<FileOps>()) {}

FileTier::FileTier(const FileTierOptions& options, std::unique_ptr<FileOps> ops)
    : impl_(std::make_unique<Impl>(options, std::move(ops))) {}

FileTier::~FileTier() {
  // In a child there are no threads to stop, and the file is the parent's.
  if (file_tier::ForkGeneration() != impl_->generation) static_cast<void>(impl_.release());
}

void FileTier::CheckProcess() const {
  if (file_tier::ForkGeneration() != impl_->generation) {
    ThrowUsage("this file tier was made before a fork, by the parent; make one in this process");
  }
}

FileTicket FileTier::StartWrite(const void* data, std::size_t size) {
  CheckProcess();
  return impl_->table.AddWrite(data, size);
}

FileTicket FileTier::StartRead(const FileExtent& extent, void* data) {
  CheckProcess();
  return impl_->table.AddRead(extent, data);
}

bool FileTier::Done(FileTicket ticket) const {
  CheckProcess();
  return impl_->table.Done(ticket);
}

FileExtent FileTier::Wait(FileTicket ticket) {
  CheckProcess();
  const Table::Outcome outcome = impl_->table.Wait(ticket);
  if (outcome.failure.kind == file_tier::Failure::Kind::kNone) return outcome.extent;
  throw file_tier::ToError(
      outcome.failure,
      {impl_->file.path(), impl_->file.dir(), outcome.write,
       static_cast<std::uint64_t>(impl_->options.byte_cap.value()), impl_->table.used()});
}

void FileTier::Release(const FileExtent& extent) {
  CheckProcess();
  impl_->table.Release(extent);
}

FileTierStats FileTier::stats() const {
  CheckProcess();
  return impl_->table.stats();
}

const FileTierFacts& FileTier::facts() const { return impl_->facts; }

}  // namespace restow::swap
