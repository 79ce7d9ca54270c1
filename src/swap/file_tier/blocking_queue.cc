#include <unistd.h>

#include <cerrno>

#include "restow/base/check.h"
#include "swap/file_tier/transfer.h"

namespace restow::swap::file_tier {
namespace {

class BlockingQueue : public TransferQueue {
 public:
  explicit BlockingQueue(int fd) : fd_(fd) {}

  void Submit(Transfer* transfer) override {
    RESTOW_CHECK(finished_ == nullptr);
    const auto offset = static_cast<off_t>(transfer->offset);
    const ssize_t moved = transfer->write ? ::pwrite(fd_, transfer->data, transfer->size, offset)
                                          : ::pread(fd_, transfer->data, transfer->size, offset);
    transfer->result = moved < 0 ? -errno : moved;
    finished_ = transfer;
  }

  Transfer* Wait() override {
    Transfer* transfer = finished_;
    finished_ = nullptr;
    return transfer;
  }

  void Wake() noexcept override {}

 private:
  int fd_;
  Transfer* finished_ = nullptr;
};

}  // namespace

std::unique_ptr<TransferQueue> MakeBlockingQueue(int fd) {
  return std::make_unique<BlockingQueue>(fd);
}

}  // namespace restow::swap::file_tier
