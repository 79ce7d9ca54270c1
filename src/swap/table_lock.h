// The engine's one lock, which knows whether the calling thread holds it.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace restow::swap {

// Guards table work only: never held across a call into a device, a tier, a callback or a wait, so
// for well under a microsecond. That is why waiting is a short spin, and why there is no call into
// the system where nobody waits: half the price of a std::mutex, paid three times per saved tensor.
// Whoever was preempted while holding it is given the processor, at last by sleeping.
// The fake device asserts on each of its calls that it is not held.
class TableLock {
 public:
  void lock() {
    for (int tries = 0; taken_.exchange(true, std::memory_order_acquire); ++tries) Pause(tries);
    ++held_;
  }
  void unlock() {
    --held_;
    taken_.store(false, std::memory_order_release);
  }
  // Does the calling thread hold any engine's lock?
  static bool HeldByThisThread() { return held_ > 0; }

 private:
  static void Pause(int tries) {
    constexpr int kSpins = 64, kYields = 256;
    if (tries < kSpins) return;
    if (tries < kYields) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

  std::atomic<bool> taken_{false};
  // Read at each lock: without the usual call of a shared library for it.
  [[gnu::tls_model("initial-exec")]] static inline thread_local int held_ = 0;
};

using Guard = std::unique_lock<TableLock>;

}  // namespace restow::swap
