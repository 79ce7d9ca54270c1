// The calls of emulator.h: options, clock, reports.
#include <algorithm>

#include "emulator/emulator.h"
#include "emulator/memory.h"
#include "emulator/queues.h"
#include "emulator/work.h"
#include "restow/base/error.h"

namespace restow::emulator {
namespace {

void Require(bool good, const std::string& what) {
  if (!good) ThrowBadInput("the emulator's " + what);
}

void Check(const Options& options) {
  Require(options.devices == 1 || options.devices == kDevices,
          "number of devices is " + std::to_string(options.devices) + "; 1 and 2 are allowed");
  Require(options.launch_s >= 0, "launch time is negative; 0 or more is allowed");
  Require(options.poll_s > 0, "poll time is not positive; polling would never end");
}

void CheckDevice(int device) {
  Require(device >= 0 && device < kDevices,
          "device " + std::to_string(device) + " does not exist; 0 and 1 do");
}

void Check(const DeviceOptions& options) {
  Require(options.h2d_bytes_per_second > 0, "h2d bandwidth is not positive");
  Require(options.d2h_bytes_per_second > 0, "d2h bandwidth is not positive");
  for (const auto& [name, cost] : options.op_cost) {
    Require(cost.seconds >= 0 && cost.bytes_per_second >= 0,
            "cost of " + name + " is negative; 0 or more is allowed");
  }
}

// With nothing left to wait for.
void RestartClock(Machine& m) {
  for (int device = 0; device < kDevices; ++device) ReleaseDeferred(m, device);
  ResetTime(m);
}

}  // namespace

void Configure(const Options& options) {
  Check(options);
  Machine& m = TheMachine();
  Lock lock(m.mutex);
  SyncAll(m, lock);
  if (m.options.schedule == Schedule::kThreads) StopWorkers(m, lock);
  const bool draws = options.schedule != m.options.schedule || options.seed != m.options.seed;
  const bool clock = options.clock != m.options.clock;
  if (clock) RestartClock(m);
  m.options = options;
  if (draws) m.draws.seed(options.seed);
}

Options CurrentOptions() {
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  return m.options;
}

void ConfigureDevice(int device, const DeviceOptions& options) {
  CheckDevice(device);
  Check(options);
  Machine& m = TheMachine();
  Lock lock(m.mutex);
  SyncAll(m, lock);
  m.devices[device].options = options;
}

DeviceOptions CurrentDeviceOptions(int device) {
  CheckDevice(device);
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  return m.devices[device].options;
}

double Now() {
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  return ToSeconds(HostNow(m));
}

double HostWait() {
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  return ToSeconds(m.host_wait);
}

void RestartClock() {
  Machine& m = TheMachine();
  Lock lock(m.mutex);
  SyncAll(m, lock);
  RestartClock(m);
}

std::vector<Race> Races() {
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  return m.races;
}

void ClearRaces() {
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  m.races.clear();
  m.race_keys.clear();
}

std::vector<TraceSpan> Trace() {
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  return m.trace;
}

MemoryFigures Memory(int device) {
  CheckDevice(device);
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  ReleaseDeferred(m, device);
  return m.devices[device].memory;
}

void ResetPeakMemory(int device) {
  CheckDevice(device);
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  ReleaseDeferred(m, device);
  MemoryFigures& memory = m.devices[device].memory;
  memory.peak_allocated_bytes = memory.allocated_bytes;
  memory.peak_active_bytes = memory.active_bytes;
}

std::uint64_t PinnedBytes() {
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  return m.pinned_bytes;
}

}  // namespace restow::emulator
