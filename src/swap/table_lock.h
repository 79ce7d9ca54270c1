// The engine's one lock, which knows whether the calling thread holds it.
#pragma once

#include <mutex>

namespace restow::swap {

// Guards table work only: never held across a call into a device, a tier, a callback or a wait.
// The fake device asserts that on each of its calls.
class TableLock {
 public:
  void lock() {
    mutex_.lock();
    ++held_;
  }
  void unlock() {
    --held_;
    mutex_.unlock();
  }
  // Does the calling thread hold any engine's lock?
  static bool HeldByThisThread() { return held_ > 0; }

 private:
  std::mutex mutex_;
  static inline thread_local int held_ = 0;
};

using Guard = std::unique_lock<TableLock>;

}  // namespace restow::swap
