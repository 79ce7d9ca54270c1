// A tier in memory, for tests: work finishes when the test says so, and fails on demand.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "restow/swap/tier.h"
#include "swap/fake/fake_device.h"

namespace restow::swap {

enum class TierCall : std::uint8_t { kStartWrite, kWrite, kStartRead, kRead };

// Bytes move when a ticket finishes, at the latest moment: in Wait, or when Poll says true. So a
// buffer that is given back too early is seen with wrong bytes, and by the device's race checks.
class FakeTier : public Tier {
 public:
  explicit FakeTier(std::shared_ptr<FakeDevice> device = nullptr) : device_(std::move(device)) {}

  Ticket StartWrite(const void* data, std::size_t bytes) override;
  Ticket StartRead(const Extent& extent, void* into) override;
  bool Poll(Ticket ticket) noexcept override;
  Extent Wait(Ticket ticket) override;
  void Release(const Extent& extent) noexcept override;

  // Asked at each call; true makes it fail.
  void FailWhen(std::function<bool(TierCall)> fails);
  // A ticket is seen finished by its n-th Poll; 0: only by Wait.
  void SetPolls(int polls) { polls_ = polls; }
  std::size_t byte_cap = ~std::size_t{0};

  std::size_t bytes() const;
  std::size_t open_tickets() const;
  std::vector<std::string> errors() const;

 private:
  struct Work {
    bool writes = false, finished = false;
    const void* from = nullptr;
    void* into = nullptr;
    Extent extent;
    std::string error;
    int polled = 0;
  };
  void Finish(Work& work);
  bool Fails(TierCall call);

  std::shared_ptr<FakeDevice> device_;
  mutable std::mutex mutex_;
  std::function<bool(TierCall)> fails_;
  std::map<Ticket, Work> work_;
  std::map<std::uint64_t, std::vector<std::byte>> blobs_;
  std::uint64_t next_ = 1;
  int polls_ = 1;
  std::size_t bytes_ = 0;
  std::vector<std::string> errors_;
};

}  // namespace restow::swap
