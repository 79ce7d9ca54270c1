#include "swap/event_pool.h"

namespace restow::swap {

void EventRef::reset() {
  EventNode* node = std::exchange(node_, nullptr);
  if (node == nullptr) return;
  if (node->references.fetch_sub(1, std::memory_order_acq_rel) == 1) node->pool->Return(node);
}

bool EventRef::Done(Device& device) const {
  if (SeenDone()) return true;
  if (!device.Done(*node_->event)) return false;
  node_->seen_done.store(true);
  return true;
}

void EventRef::HostWait(Device& device) const {
  if (SeenDone()) return;
  device.HostWait(*node_->event);
  node_->seen_done.store(true);
}

void EventRef::Order(Device& device, Stream stream) const {
  // An event the host has seen done is before everything queued from now on.
  if (!SeenDone()) device.StreamWait(stream, *node_->event);
}

EventRef EventPool::Mark(Stream stream) {
  EventNode* node = TakeFree();
  if (node == nullptr) node = Create();
  EventRef ref(node);
  node->seen_done.store(false);
  device_->Record(*node->event, stream);
  return ref;
}

std::size_t EventPool::created() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return nodes_.size();
}

EventNode* EventPool::TakeFree() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (free_.empty()) return nullptr;
  EventNode* node = free_.back();
  free_.pop_back();
  return node;
}

EventNode* EventPool::Create() {
  auto node = std::make_unique<EventNode>();
  node->event = device_->NewEvent();
  node->pool = this;
  const std::lock_guard<std::mutex> lock(mutex_);
  nodes_.push_back(std::move(node));
  free_.reserve(nodes_.size());  // so that Return cannot fail
  return nodes_.back().get();
}

void EventPool::Return(EventNode* node) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(node);
}

}  // namespace restow::swap
