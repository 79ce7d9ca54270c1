// Faults by script: which transfers fail, and how.
#pragma once

#include <atomic>
#include <random>
#include <string>

#include "restow/swap/file_tier.h"
#include "swap/file_tier/testing/faulty_ops.h"

namespace restow::swap::file_tier {

inline constexpr std::size_t kTransfer = 16 * kKiB;

// The n-th transfers (from 0) of one direction fail in the same way.
struct Script {
  bool write = false;
  int first = 0, count = 1;
  Fault fault;
};

class Scripted {
 public:
  Script script;
  std::atomic<bool> armed{false};

  Fault operator()(const Transfer& transfer) {
    if (!armed || transfer.write != script.write) return {};
    const int n = seen_++;
    const bool hit = n >= script.first && n < script.first + script.count;
    hits += hit ? 1 : 0;
    return hit ? script.fault : Fault{};
  }

  std::atomic<int> hits{0};

 private:
  std::atomic<int> seen_{0};
};

inline FileTierOptions OptionsFor(const std::string& dir) {
  FileTierOptions options;
  options.dir = dir;
  options.transfer_bytes = Bytes(kTransfer);
  return options;
}

inline std::string Text(std::size_t size, unsigned seed) {
  std::string text(size, '\0');
  std::minstd_rand random(seed + 1);
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

}  // namespace restow::swap::file_tier
