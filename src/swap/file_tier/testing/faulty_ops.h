// A kernel that misbehaves on request: transfers that fail, stop short or flip a bit; file systems
// without unnamed files, direct I/O, reservation or io_uring.
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "swap/file_tier/file_ops.h"

namespace restow::swap::file_tier {

struct Fault {
  enum class Kind { kNone, kError, kShort, kFlip };
  Kind kind = Kind::kNone;
  int error = 0;
};

// Asked before each transfer, from the tier's threads.
using Decide = std::function<Fault(const Transfer&)>;

class FaultyQueue : public TransferQueue {
 public:
  FaultyQueue(std::unique_ptr<TransferQueue> inner, Decide decide)
      : inner_(std::move(inner)), decide_(std::move(decide)) {}

  void Submit(Transfer* transfer) override {
    const Fault fault = decide_(*transfer);
    if (fault.kind == Fault::Kind::kError) {
      transfer->result = -fault.error;
      failed_.push_back(transfer);
      return;
    }
    auto held = std::make_unique<Held>();
    held->transfer = *transfer;
    held->original = transfer;
    held->flip = fault.kind == Fault::Kind::kFlip;
    if (fault.kind == Fault::Kind::kShort) held->transfer.size = Less(transfer->size);
    if (held->flip && transfer->write) held->FlipOnTheWay();
    Transfer* inner = &held->transfer;
    held_.emplace(inner, std::move(held));
    inner_->Submit(inner);
  }

  Transfer* Wait() override {
    if (!failed_.empty()) {
      Transfer* transfer = failed_.front();
      failed_.pop_front();
      return transfer;
    }
    Transfer* inner = inner_->Wait();
    if (inner == nullptr) return nullptr;
    const std::unique_ptr<Held> held = std::move(held_.at(inner));
    held_.erase(inner);
    held->original->result = inner->result;
    if (held->flip && !inner->write && inner->result > 0) *static_cast<char*>(inner->data) ^= 1;
    return held->original;
  }

  void Wake() noexcept override { inner_->Wake(); }

 private:
  struct Held {
    Transfer transfer;
    Transfer* original = nullptr;
    bool flip = false;
    std::unique_ptr<void, decltype(&std::free)> copy{nullptr, &std::free};

    void FlipOnTheWay() {
      const std::size_t room = (transfer.size + 4095) / 4096 * 4096;
      copy.reset(std::aligned_alloc(4096, room));
      std::memcpy(copy.get(), transfer.data, transfer.size);
      transfer.data = copy.get();
      *static_cast<char*>(transfer.data) ^= 1;
    }
  };

  // About half, in what direct I/O takes; one block stays one block less one byte's worth: none.
  static std::size_t Less(std::size_t size) { return size >= 8192 ? size / 8192 * 4096 : size; }

  std::unique_ptr<TransferQueue> inner_;
  Decide decide_;
  std::deque<Transfer*> failed_;
  std::map<Transfer*, std::unique_ptr<Held>> held_;
};

class FaultyOps : public FileOps {
 public:
  Decide decide = [](const Transfer&) { return Fault{}; };
  std::function<int()> allocate_error = [] { return 0; };  // errno, or 0 for the real call
  int unnamed_error = 0, unlink_error = 0, direct_error = 0, ring_error = 0;

  int Open(int dir, const char* name, int flags, mode_t mode) override {
    if (unnamed_error != 0 && (flags & O_TMPFILE) == O_TMPFILE) return -unnamed_error;
    return FileOps::Open(dir, name, flags, mode);
  }
  int Unlink(int dir, const char* name) override {
    return unlink_error != 0 ? -unlink_error : FileOps::Unlink(dir, name);
  }
  int SetDirect(int fd, bool direct) override {
    return direct_error != 0 ? -direct_error : FileOps::SetDirect(fd, direct);
  }
  int Allocate(int fd, std::uint64_t offset, std::uint64_t size) override {
    const int error = allocate_error();
    return error != 0 ? -error : FileOps::Allocate(fd, offset, size);
  }
  std::unique_ptr<TransferQueue> MakeRing(int fd, int depth, std::string& why) override {
    if (ring_error != 0) {
      why = std::string("io_uring is not available (") + std::strerror(ring_error) + ")";
      return nullptr;
    }
    std::unique_ptr<TransferQueue> inner = FileOps::MakeRing(fd, depth, why);
    if (inner == nullptr) return nullptr;
    return std::make_unique<FaultyQueue>(std::move(inner), decide);
  }
  std::unique_ptr<TransferQueue> MakeBlocking(int fd) override {
    return std::make_unique<FaultyQueue>(FileOps::MakeBlocking(fd), decide);
  }
};

}  // namespace restow::swap::file_tier
