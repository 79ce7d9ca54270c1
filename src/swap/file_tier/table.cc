#include "swap/file_tier/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace restow::swap::file_tier {
namespace {

std::uint64_t RoundUp(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

void RequireBuffer(const void* data, std::size_t size, const char* call) {
  if (data == nullptr && size > 0) {
    ThrowUsage(fmt::format("FileTier::{}: the buffer is null; {} bytes are wanted", call, size));
  }
}

Bytes AsBytes(std::uint64_t bytes) { return Bytes(static_cast<std::int64_t>(bytes)); }

}  // namespace

Job& Table::NewJob(bool write, char* data, Extent* extent) {
  Job& job = jobs_.Get();
  const std::uint32_t index = job.index, generation = job.generation;
  job = Job{};
  job.index = index;
  job.generation = generation;
  job.write = write;
  job.data = data;
  job.extent = extent;
  job.active = true;
  if (extent != nullptr) job.result = {Slots<Extent>::IdOf(*extent), extent->size};
  ++stats_.unfinished;
  return job;
}

Job& Table::FindJob(FileTicket ticket) const {
  Job* job = jobs_.Find(ticket.id);
  if (job == nullptr || !job->active) {
    ThrowUsage("FileTier: no such ticket; each is given to Wait once, and not used after that");
  }
  return *job;
}

Extent& Table::FindLive(const FileExtent& extent) const {
  Extent* found = extents_.Find(extent.id);
  if (found == nullptr || !found->live) {
    ThrowUsage("FileTier: no such extent; it was released, or is another tier's");
  }
  if (found->size != extent.size) {
    ThrowUsage(
        fmt::format("FileTier: the extent holds {} bytes, not {}; use it as Wait returned it",
                    found->size, extent.size));
  }
  return *found;
}

// Transfers of at most transfer_bytes, none across two ranges.
void Table::Cut(Extent& extent) {
  extent.pieces.clear();
  std::size_t done = 0;
  for (const Range& range : extent.ranges) {
    for (std::uint64_t at = 0; at < range.size; at += options_.transfer_bytes) {
      const std::uint64_t room = std::min(options_.transfer_bytes, range.size - at);
      const std::size_t size = std::min<std::uint64_t>(room, extent.size - done);
      extent.pieces.push_back({range.offset + at, done, size, 0});
      done += size;
    }
  }
}

FileTicket Table::AddWrite(const void* data, std::size_t size) {
  RequireBuffer(data, size, "StartWrite");
  Lock lock(mutex_);
  Extent& extent = extents_.Get();
  extent.size = size;
  extent.ranges.clear();
  const bool fits =
      size <= options_.cap && space_.Take(RoundUp(size, options_.alignment), extent.ranges);
  if (!fits) {
    extents_.Free(extent);
    Job& refused = NewJob(true, nullptr, nullptr);
    refused.failure = {Failure::Kind::kCap, 0, 0, size};
    CompleteIfOver(refused);
    return {Slots<Job>::IdOf(refused)};
  }
  ++stats_.blobs;
  Cut(extent);
  // Never written through: workers only read a write's buffer.
  Job& job = NewJob(true, static_cast<char*>(const_cast<void*>(data)), &extent);
  const FileTicket ticket{Slots<Job>::IdOf(job)};
  Enqueue(std::move(lock), job);
  return ticket;
}

FileTicket Table::AddRead(const FileExtent& wanted, void* data) {
  RequireBuffer(data, wanted.size, "StartRead");
  Lock lock(mutex_);
  Extent& extent = FindLive(wanted);
  ++extent.readers;
  Job& job = NewJob(false, static_cast<char*>(data), &extent);
  const FileTicket ticket{Slots<Job>::IdOf(job)};
  Enqueue(std::move(lock), job);
  return ticket;
}

void Table::Enqueue(Lock lock, Job& job) {
  const std::size_t pieces = job.extent->pieces.size();
  if (pieces == 0) return CompleteIfOver(job);
  QueueOf(job).push_back(&job);
  std::uint64_t wake = std::exchange(wakeable_, 0);
  lock.unlock();
  if (pieces == 1) work_.notify_one();
  if (pieces > 1) work_.notify_all();
  for (; wake != 0; wake &= wake - 1) options_.wake(std::countr_zero(wake));
}

bool Table::Done(FileTicket ticket) const {
  const Lock lock(mutex_);
  return FindJob(ticket).done;
}

Table::Outcome Table::Wait(FileTicket ticket) {
  Lock lock(mutex_);
  // Looked up again after each wake: another thread may have taken the ticket back meanwhile.
  while (!FindJob(ticket).done) done_.wait(lock);
  Job& job = FindJob(ticket);
  const Outcome outcome{job.result, job.failure, job.write};
  job.active = false;
  jobs_.Free(job);
  return outcome;
}

void Table::Release(const FileExtent& released) {
  const Lock lock(mutex_);
  Extent& extent = FindLive(released);
  extent.live = false;
  if (extent.readers == 0) FreeExtent(extent);
}

void Table::FreeExtent(Extent& extent) {
  for (const Range& range : extent.ranges) space_.Give(range);
  --stats_.blobs;
  extent.live = false;
  extents_.Free(extent);
}

bool Table::TryTake(int worker, Work& work) {
  const Lock lock(mutex_);
  if (in_flight_ == options_.depth) return false;
  std::deque<Job*>& queue = reads_.empty() ? writes_ : reads_;
  if (queue.empty()) {
    wakeable_ |= std::uint64_t{1} << worker;
    return false;
  }
  Job& job = *queue.front();
  work = {&job, &job.extent->pieces[job.next++]};
  ++job.in_flight;
  ++in_flight_;
  if (job.next == job.extent->pieces.size()) queue.pop_front();
  return true;
}

bool Table::AwaitWork(int worker) {
  Lock lock(mutex_);
  wakeable_ &= ~(std::uint64_t{1} << worker);
  work_.wait(lock, [this] {
    const bool waiting = !reads_.empty() || !writes_.empty();
    return stopped_ || (waiting && in_flight_ < options_.depth);
  });
  return !stopped_;
}

void Table::Finish(const Work& work, const WorkResult& result) {
  const Lock lock(mutex_);
  Job& job = *work.job;
  --job.in_flight;
  --in_flight_;
  stats_.short_transfers += result.short_transfers;
  stats_.rereads += result.rereads;
  stats_.bytes_copied += Bytes(result.copied);
  const bool failed = result.failure.kind != Failure::Kind::kNone;
  if (failed && job.failure.kind == Failure::Kind::kNone) {
    job.failure = result.failure;
    if (job.next < job.extent->pieces.size()) std::erase(QueueOf(job), &job);
    job.next = job.extent->pieces.size();
  }
  CompleteIfOver(job);
}

void Table::CompleteIfOver(Job& job) {
  if (job.in_flight > 0) return;
  Extent* extent = job.extent;
  if (extent != nullptr && job.next < extent->pieces.size()) return;
  job.done = true;
  Count(job);
  if (extent != nullptr && job.write) {
    extent->live = job.failure.kind == Failure::Kind::kNone;
    if (!extent->live) FreeExtent(*extent);
  } else if (extent != nullptr) {
    --extent->readers;
    if (!extent->live && extent->readers == 0) FreeExtent(*extent);
  }
  done_.notify_all();
}

void Table::Count(const Job& job) {
  --stats_.unfinished;
  const auto size = AsBytes(job.result.size);
  if (job.failure.kind == Failure::Kind::kCap) {
    ++stats_.refused;
  } else if (job.failure.kind != Failure::Kind::kNone) {
    ++(job.write ? stats_.failed_writes : stats_.failed_reads);
  } else {
    ++(job.write ? stats_.writes : stats_.reads);
    (job.write ? stats_.bytes_written : stats_.bytes_read) += size;
  }
}

void Table::Stop() {
  std::uint64_t wake = 0;
  {
    const Lock lock(mutex_);
    stopped_ = true;
    reads_.clear();
    writes_.clear();
    wake = std::exchange(wakeable_, 0);
  }
  work_.notify_all();
  for (; wake != 0; wake &= wake - 1) options_.wake(std::countr_zero(wake));
}

FileTierStats Table::stats() const {
  const Lock lock(mutex_);
  FileTierStats stats = stats_;
  stats.live_bytes = AsBytes(space_.used());
  stats.file_bytes = AsBytes(space_.end());
  return stats;
}

std::uint64_t Table::used() const {
  const Lock lock(mutex_);
  return space_.used();
}

}  // namespace restow::swap::file_tier
