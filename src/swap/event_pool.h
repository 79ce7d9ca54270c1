// Events, reused: a steady state creates none.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "restow/swap/device.h"

namespace restow::swap {

class EventPool;

struct EventNode {
  std::unique_ptr<Event> event;
  EventPool* pool = nullptr;
  std::atomic<std::uint32_t> references{0};
  std::atomic<bool> seen_done{false};  // since its last recording
};

// A shared claim on one recording of an event. The node goes back to its pool with the last claim.
class EventRef {
 public:
  EventRef() = default;
  explicit EventRef(EventNode* node) : node_(node) { Hold(); }
  EventRef(const EventRef& other) : node_(other.node_) { Hold(); }
  EventRef(EventRef&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  EventRef& operator=(EventRef other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~EventRef() { reset(); }

  void reset();
  explicit operator bool() const { return node_ != nullptr; }
  friend bool operator==(const EventRef&, const EventRef&) = default;

  // Asked of the device only until it has said yes once. A missing event is done.
  bool Done(Device& device) const;
  bool SeenDone() const { return node_ == nullptr || node_->seen_done.load(); }
  void HostWait(Device& device) const;
  void Order(Device& device, Stream stream) const;  // `stream` waits
  double Seconds(Device& device) const { return device.EventSeconds(*node_->event); }

 private:
  void Hold() {
    if (node_ != nullptr) node_->references.fetch_add(1, std::memory_order_relaxed);
  }

  EventNode* node_ = nullptr;
};

// Threads: any. Its own small lock guards the list of free nodes and is held across no call.
class EventPool {
 public:
  explicit EventPool(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // An event recorded on `stream` now. Errors: the device's.
  EventRef Mark(Stream stream);
  std::size_t created() const;

 private:
  friend class EventRef;
  EventNode* TakeFree();
  EventNode* Create();
  void Return(EventNode* node) noexcept;

  std::shared_ptr<Device> device_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<EventNode>> nodes_;
  std::vector<EventNode*> free_;
};

}  // namespace restow::swap
