// Host memory for copies, reused from step to step; several engines of one device may share one.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "restow/base/quantity.h"
#include "restow/swap/device.h"
#include "restow/swap/options.h"

namespace restow::swap {

struct HostPoolOptions {
  // Reserved bytes never exceed this.
  Bytes cap = Bytes(std::numeric_limits<std::int64_t>::max());
  PinFailure pin_failure = PinFailure::kPageable;
};

struct HostPoolStats {
  std::int64_t reserved_bytes = 0, used_bytes = 0;  // now
  std::int64_t peak_reserved_bytes = 0, peak_used_bytes = 0;
  std::int64_t abandoned_bytes = 0;
  std::int64_t allocations = 0, pin_failures = 0, refusals = 0;  // ever
};

std::shared_ptr<HostPool> MakeHostPool(std::shared_ptr<Device> device, HostPoolOptions options);
HostPoolStats StatsOf(const HostPool& pool);

}  // namespace restow::swap
