// Ctrl-C while a search runs.
#pragma once

#include <csignal>

#include <atomic>

namespace restow::cli {

// While it lives, the first SIGINT sets the flag and the second ends the process with 130.
// Threads: one at a time, made and destroyed by the main thread.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  const std::atomic<bool>* flag() const;
  bool raised() const { return flag()->load(); }

 private:
  struct sigaction before_ {};
};

}  // namespace restow::cli
