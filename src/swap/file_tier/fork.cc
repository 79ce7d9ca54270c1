#include "swap/file_tier/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace restow::swap::file_tier {
namespace {

std::atomic<unsigned> generation{0};

// Held across a fork, so that a child sees the list whole.
std::mutex& Lock() {
  static std::mutex lock;
  return lock;
}

std::vector<int>& Descriptors() {
  static std::vector<int> descriptors;
  return descriptors;
}

void BeforeFork() { Lock().lock(); }
void AfterForkInParent() { Lock().unlock(); }

void AfterForkInChild() {
  generation.fetch_add(1, std::memory_order_relaxed);
  for (const int fd : Descriptors()) ::close(fd);
  Descriptors().clear();
  Lock().unlock();
}

void Install() {
  static const int installed = [] {
    Lock();
    Descriptors();
    return ::pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  }();
  static_cast<void>(installed);
}

}  // namespace

unsigned ForkGeneration() {
  Install();
  return generation.load(std::memory_order_relaxed);
}

ClosedInChildren::ClosedInChildren(int fd) : fd_(fd) {
  Install();
  const std::lock_guard<std::mutex> lock(Lock());
  Descriptors().push_back(fd);
}

ClosedInChildren::~ClosedInChildren() {
  const std::lock_guard<std::mutex> lock(Lock());
  std::erase(Descriptors(), fd_);
}

}  // namespace restow::swap::file_tier
