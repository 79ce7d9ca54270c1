// Finding and reporting accesses without an order between them. All with the machine's lock held.
#pragma once

#include <vector>

#include "emulator/machine.h"

namespace restow::emulator {

// What one operation does to one tensor.
struct Use {
  // Addresses of the bytes touched, as few ranges as they make.
  std::vector<ByteRange> ranges;
  bool read = false;
  bool write = false;
  const char* dtype = "";
  std::vector<std::int64_t> sizes;
};

// An operation about to happen.
struct Operation {
  Label label = nullptr;
  Epoch epoch;
  const VectorClock* clock = nullptr;
};

// Notes the uses in the blocks' histories and reports every conflict. Returns the ranges that the
// operation reads without being ordered after their write.
std::vector<ByteRange> CheckUses(Machine& m, const std::vector<Use>& uses, const Operation& by);

void ReportEarlyFree(Machine& m, const Block& block, const Access& first);

}  // namespace restow::emulator
