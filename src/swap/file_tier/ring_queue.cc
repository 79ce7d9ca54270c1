#include <fmt/format.h>
#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "restow/base/check.h"
#include "swap/file_tier/descriptor.h"
#include "swap/file_tier/fork.h"
#include "swap/file_tier/transfer.h"

namespace restow::swap::file_tier {
namespace {

bool CanReadAndWrite(io_uring& ring) {
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  if (probe == nullptr) return false;
  const bool can = io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                   io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
  io_uring_free_probe(probe);
  return can;
}

// Wake writes to an event descriptor that the ring always has a read of in flight; that read's
// completion carries no transfer.
class RingQueue : public TransferQueue {
 public:
  RingQueue(int fd, int wake_fd, const io_uring& ring) : fd_(fd), wake_(wake_fd), ring_(ring) {
    closed_in_children_.emplace(ring.ring_fd);
  }
  RingQueue(const RingQueue&) = delete;
  RingQueue& operator=(const RingQueue&) = delete;
  // A child's copy would keep the ring alive.
  ~RingQueue() override {
    closed_in_children_.reset();
    io_uring_queue_exit(&ring_);
  }

  void Submit(Transfer* transfer) override {
    // Not before: the kernel ends what a thread has in flight when that thread ends, and the one
    // that uses the queue is gone, with all that could still write to `wakes_`, before the queue
    // is.
    if (!listening_) ListenForWake();
    io_uring_sqe* entry = NextEntry();
    const auto size = static_cast<unsigned>(transfer->size);
    if (transfer->write) {
      io_uring_prep_write(entry, fd_, transfer->data, size, transfer->offset);
    } else {
      io_uring_prep_read(entry, fd_, transfer->data, size, transfer->offset);
    }
    io_uring_sqe_set_data(entry, transfer);
    // What the kernel has no memory for now stays in the ring, and Wait offers it again.
    io_uring_submit(&ring_);
  }

  Transfer* Wait() override {
    io_uring_cqe* completion = nullptr;
    while (io_uring_peek_cqe(&ring_, &completion) != 0) SubmitAndWait();
    auto* transfer = static_cast<Transfer*>(io_uring_cqe_get_data(completion));
    if (transfer != nullptr) transfer->result = completion->res;
    io_uring_cqe_seen(&ring_, completion);
    if (transfer == nullptr) ListenForWake();
    return transfer;
  }

  void Wake() noexcept override {
    const std::uint64_t one = 1;
    // Fails only when the counter is full, and then the ring is awake anyway.
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
  }

 private:
  io_uring_sqe* NextEntry() {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    RESTOW_CHECK(entry != nullptr);
    return entry;
  }

  void ListenForWake() {
    io_uring_sqe* entry = NextEntry();
    io_uring_prep_read(entry, wake_.get(), &wakes_, sizeof(wakes_), 0);
    io_uring_sqe_set_data(entry, nullptr);
    io_uring_submit(&ring_);
    listening_ = true;
  }

  void SubmitAndWait() {
    const int result = io_uring_submit_and_wait(&ring_, 1);
    if (result >= 0 || result == -EINTR) return;
    // Short of memory: what is in flight will end and make room.
    RESTOW_CHECK(result == -EAGAIN || result == -EBUSY || result == -ENOMEM);
    ::usleep(1000);
  }

  int fd_;
  Descriptor wake_;
  std::uint64_t wakes_ = 0;
  io_uring ring_;
  std::optional<ClosedInChildren> closed_in_children_;
  bool listening_ = false;
};

}  // namespace

std::unique_ptr<TransferQueue> MakeRingQueue(int fd, int depth, std::string& why) {
  io_uring ring;
  // One entry more than transfers, for the read that listens for Wake.
  const int failed = io_uring_queue_init(static_cast<unsigned>(depth) + 1, &ring, 0);
  if (failed != 0) {
    why = fmt::format("io_uring is not available ({})", std::strerror(-failed));
    return nullptr;
  }
  if (!CanReadAndWrite(ring)) {
    io_uring_queue_exit(&ring);
    why = "io_uring is not available (the kernel is older than 5.6)";
    return nullptr;
  }
  const int wake_fd = ::eventfd(0, EFD_CLOEXEC);
  if (wake_fd < 0) {
    why = fmt::format("io_uring is not used (no event descriptor: {})", std::strerror(errno));
    io_uring_queue_exit(&ring);
    return nullptr;
  }
  return std::make_unique<RingQueue>(fd, wake_fd, ring);
}

}  // namespace restow::swap::file_tier
