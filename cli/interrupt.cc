#include "cli/interrupt.h"

#include <unistd.h>

namespace restow::cli {
namespace {

// A signal handler can reach nothing but what is static.
std::atomic<bool> raised_flag{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void OnInterrupt(int) {
  if (raised_flag.exchange(true)) ::_exit(130);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  raised_flag.store(false);
  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() { ::sigaction(SIGINT, &before_, nullptr); }

const std::atomic<bool>* InterruptGuard::flag() const { return &raised_flag; }

}  // namespace restow::cli
