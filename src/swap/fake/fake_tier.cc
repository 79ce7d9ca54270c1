#include "swap/fake/fake_tier.h"

#include <fmt/format.h>

#include <cstring>

#include "restow/base/error.h"
#include "swap/table_lock.h"

namespace restow::swap {

using Held = std::lock_guard<std::mutex>;

void FakeTier::FailWhen(std::function<bool(TierCall)> fails) {
  const Held held(mutex_);
  fails_ = std::move(fails);
}

bool FakeTier::Fails(TierCall call) {
  if (TableLock::HeldByThisThread()) errors_.push_back("the table lock is held across a tier call");
  return fails_ && fails_(call);
}

Tier::Ticket FakeTier::StartWrite(const void* data, std::size_t bytes) {
  const Held held(mutex_);
  if (Fails(TierCall::kStartWrite)) throw Error(ErrorCode::kBadInput, "fake.bin: closed");
  if (bytes > byte_cap || bytes_ > byte_cap - bytes) {
    throw Error(ErrorCode::kBadInput, fmt::format("fake.bin: the cap of {} bytes", byte_cap));
  }
  bytes_ += bytes;
  Work work;
  work.writes = true;
  work.from = data;
  work.extent = {next_, bytes, 0};
  work_[next_] = work;
  return next_++;
}

Tier::Ticket FakeTier::StartRead(const Extent& extent, void* into) {
  const Held held(mutex_);
  if (Fails(TierCall::kStartRead)) throw Error(ErrorCode::kBadInput, "fake.bin: closed");
  if (blobs_.count(extent.place) == 0) errors_.push_back("an extent is read that is not held");
  Work work;
  work.into = into;
  work.extent = extent;
  work_[next_] = work;
  return next_++;
}

void FakeTier::Finish(Work& work) {
  if (work.finished) return;
  work.finished = true;
  if (Fails(work.writes ? TierCall::kWrite : TierCall::kRead)) {
    work.error = "fake.bin: input/output error";
    if (work.writes) bytes_ -= work.extent.bytes;
    return;
  }
  const auto size = static_cast<std::size_t>(work.extent.bytes);
  if (work.writes) {
    if (device_) device_->HostAccess(work.from, size, false, "write to the tier");
    const auto* from = static_cast<const std::byte*>(work.from);
    blobs_[work.extent.place].assign(from, from + size);
  } else {
    if (device_) device_->HostAccess(work.into, size, true, "read from the tier");
    const auto found = blobs_.find(work.extent.place);
    if (found != blobs_.end()) std::memcpy(work.into, found->second.data(), size);
  }
}

bool FakeTier::Poll(Ticket ticket) noexcept {
  const Held held(mutex_);
  const auto found = work_.find(ticket);
  if (found == work_.end()) {
    errors_.push_back("a ticket is polled that has ended");
    return true;
  }
  if (polls_ == 0 || ++found->second.polled < polls_) return found->second.finished;
  Finish(found->second);
  return true;
}

Tier::Extent FakeTier::Wait(Ticket ticket) {
  const Held held(mutex_);
  const auto found = work_.find(ticket);
  if (found == work_.end()) {
    errors_.push_back("a ticket is waited for that has ended");
    return {};
  }
  Finish(found->second);
  const Work work = found->second;
  work_.erase(found);
  if (!work.error.empty()) throw Error(ErrorCode::kBadInput, work.error);
  return work.extent;
}

void FakeTier::Release(const Extent& extent) noexcept {
  const Held held(mutex_);
  if (blobs_.erase(extent.place) == 0) errors_.push_back("an extent is released twice");
  bytes_ -= static_cast<std::size_t>(extent.bytes);
}

std::size_t FakeTier::bytes() const {
  const Held held(mutex_);
  return bytes_;
}
std::size_t FakeTier::open_tickets() const {
  const Held held(mutex_);
  return work_.size();
}
std::vector<std::string> FakeTier::errors() const {
  const Held held(mutex_);
  return errors_;
}

}  // namespace restow::swap
