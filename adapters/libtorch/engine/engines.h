// One engine of the core per device, made when it is first needed.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine/torch_device.h"
#include "restow/libtorch.h"
#include "restow/swap/engine.h"

namespace restow::libtorch {

struct DeviceEngine {
  std::shared_ptr<TorchDevice> device;
  std::unique_ptr<swap::Engine> engine;
  c10::Device name{c10::DeviceType::CPU};
  bool to_file = false;  // no host memory in between: CPU tensors
  std::string obstacle;  // why nothing of this device can be moved; empty: it can
  // Groups launched and not yet awaited.
  std::mutex groups_mutex;
  std::set<std::string> offloads, loads;
};
using DeviceEnginePtr = std::shared_ptr<DeviceEngine>;

// A user's own pool of host memory; see HostPool in docs/torch.md.
struct PoolSpec {
  std::int64_t max_bytes = 0;
};
using PoolPtr = std::shared_ptr<PoolSpec>;

// Errors: what opening the file tier throws. Threads: any.
DeviceEnginePtr EngineOf(c10::Device device, const PoolPtr& pool = nullptr);
// Why tensors of `device` cannot be moved under the current settings, with the remedy; empty: they
// can.
std::string ObstacleOf(c10::Device device);

// Figures that add up over devices, with their names.
struct Counter {
  const char* name;
  std::int64_t swap::Stats::*field;
};
const std::vector<Counter>& Counters();
// Sums over all devices.
swap::Stats SumOfStats();
void CountRecomputedRegion();
void DrainAll();
void StartTrace();
// Each device's copies, in the order in which they were seen done.
struct DeviceTrace {
  std::string device;
  std::vector<swap::TraceEvent> events;
};
std::vector<DeviceTrace> StopTrace();
// All engines that are in use, also of earlier settings.
void ForEachEngine(const std::function<void(DeviceEngine&)>& call);

// Grows at each fork in the child: what was saved before belongs to the parent.
std::uint32_t ProcessGeneration();

}  // namespace restow::libtorch
