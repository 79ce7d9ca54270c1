#include "engine/engines.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "restow/base/error.h"
#include "restow/base/units.h"
#include "restow/swap/host_pool.h"
#include "restow/swap/tier.h"

namespace restow::libtorch {
namespace {

struct Name {
  int type = 0, index = 0;
  const PoolSpec* pool = nullptr;
  auto operator<=>(const Name&) const = default;
};

struct OfPool {
  DeviceEnginePtr engine;
  std::weak_ptr<PoolSpec> pool;
};

// Engines of earlier settings are kept while units live in them, so that figures stay whole.
struct Registry {
  std::mutex mutex;
  Settings settings = SettingsFromEnvironment();
  std::map<Name, OfPool> engines;
  std::vector<DeviceEnginePtr> retired;
  std::shared_ptr<swap::Tier> tier;
  bool tracing = false;
};

std::atomic<std::uint32_t> generation{0};
std::atomic<std::int64_t> recomputed_regions{0};

Registry*& RegistryPointer() {
  static Registry* registry = nullptr;
  return registry;
}

// In a forked child the engines' threads are gone: the parent's are left behind, unreleased.
void StartAnew() {
  generation.fetch_add(1);
  Registry* const before = RegistryPointer();
  if (before == nullptr) return;
  auto* const fresh = new Registry;
  fresh->settings = before->settings;
  RegistryPointer() = fresh;
}

Registry& TheRegistry() {
  static const bool made = [] {
    RegistryPointer() = new Registry;
    pthread_atfork(nullptr, nullptr, &StartAnew);
    return true;
  }();
  static_cast<void>(made);
  return *RegistryPointer();
}

std::shared_ptr<swap::Tier> TierOf(Registry& registry) {
  if (registry.settings.file_dir.empty()) return nullptr;
  if (!registry.tier) {
    registry.tier = swap::OpenFileTier(registry.settings.file_dir, registry.settings.file_cap);
  }
  return registry.tier;
}

swap::Options OptionsOf(Registry& registry, const PoolPtr& pool) {
  swap::Options options;
  options.window = Bytes(registry.settings.window);
  options.host_cap = Bytes(pool ? pool->max_bytes : registry.settings.host_cap);
  options.min_bytes = Bytes(registry.settings.min_bytes);
  options.keep_last_region = registry.settings.keep_last_region;
  options.watchdog_s = registry.settings.watchdog_s;
  options.tier = TierOf(registry);
  return options;
}

DeviceEnginePtr Make(Registry& registry, c10::Device device, const PoolPtr& pool) {
  auto one = std::make_shared<DeviceEngine>();
  one->name = device;
  one->to_file = device.is_cpu();
  one->device = device.is_cpu() ? OpenCpu() : OpenAccelerator(device);
  one->obstacle = one->device->obstacle();
  if (device.is_cpu() && registry.settings.file_dir.empty()) {
    one->obstacle = "CPU tensors can only be moved to files, and no folder for them is set";
  }
  one->engine = std::make_unique<swap::Engine>(one->device, OptionsOf(registry, pool));
  if (registry.tracing) one->engine->StartTrace();
  return one;
}

// Engines whose user's pool is gone, and those that are no longer needed.
void DropIdle(Registry& registry, std::vector<DeviceEnginePtr>& idle) {
  std::erase_if(registry.engines, [&](auto& entry) {
    if (entry.first.pool == nullptr || !entry.second.pool.expired()) return false;
    registry.retired.push_back(entry.second.engine);
    return true;
  });
  std::erase_if(registry.retired, [&](DeviceEnginePtr& one) {
    if (one->engine->stats().units != 0) return false;
    idle.push_back(std::move(one));
    return true;
  });
}

std::int64_t SizeOf(const char* variable, std::int64_t otherwise) {
  const char* const text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const long long plain = std::strtoll(text, &end, 10);
  if (*end == '\0') return plain;
  try {
    return ParseBytes(text).value();
  } catch (const Error& error) {
    ThrowBadInput(std::string("environment variable ") + variable + ": " + error.message());
  }
}

void Add(swap::Stats& sum, const swap::Stats& one) {
  for (const Counter& counter : Counters()) sum.*counter.field += one.*counter.field;
  sum.stall_s += one.stall_s;
  sum.prefetch_distance = std::max(sum.prefetch_distance, one.prefetch_distance);
  if (!one.last_error.empty()) sum.last_error = one.last_error;
}

}  // namespace

const std::vector<Counter>& Counters() {
  static const std::vector<Counter> counters = {
      {"bytes_out", &swap::Stats::bytes_out},
      {"bytes_in", &swap::Stats::bytes_in},
      {"moved_units", &swap::Stats::moved_units},
      {"stalls", &swap::Stats::stalls},
      {"host_allocations", &swap::Stats::host_allocations},
      {"file_bytes", &swap::Stats::file_bytes},
      {"recomputed_regions", &swap::Stats::recomputed_regions},
      {"cancelled", &swap::Stats::cancelled},
      {"demand_loads", &swap::Stats::demand_loads},
      {"host_waits", &swap::Stats::host_waits},
      {"kept_host_full", &swap::Stats::kept_host_full},
      {"kept_window_full", &swap::Stats::kept_window_full},
      {"kept_last_region", &swap::Stats::kept_last_region},
      {"pin_failures", &swap::Stats::pin_failures},
      {"device_errors", &swap::Stats::device_errors},
      {"tier_errors", &swap::Stats::tier_errors},
      {"fused_batches", &swap::Stats::fused_batches},
      {"units", &swap::Stats::units},
      {"slots", &swap::Stats::slots},
      {"host_reserved_bytes", &swap::Stats::host_reserved_bytes},
      {"host_used_bytes", &swap::Stats::host_used_bytes},
      {"held_elsewhere_bytes", &swap::Stats::held_elsewhere_bytes},
      {"leaving_bytes", &swap::Stats::leaving_bytes},
      {"brought_bytes", &swap::Stats::brought_bytes},
      {"swapped_bytes", &swap::Stats::swapped_bytes},
      {"abandoned_bytes", &swap::Stats::abandoned_bytes},
  };
  return counters;
}

Settings SettingsFromEnvironment() {
  Settings settings;
  if (const char* dir = std::getenv("RESTOW_FILE_DIR")) settings.file_dir = dir;
  settings.file_cap = SizeOf("RESTOW_FILE_CAP", settings.file_cap);
  settings.host_cap = SizeOf("RESTOW_HOST_CAP", settings.host_cap);
  settings.window = SizeOf("RESTOW_WINDOW", settings.window);
  settings.min_bytes = SizeOf("RESTOW_MIN_BYTES", settings.min_bytes);
  return settings;
}

Settings CurrentSettings() {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  return registry.settings;
}

void Configure(const Settings& settings) {
  if (settings.window < 0) ThrowBadInput("window is below 0");
  if (settings.min_bytes < 0) ThrowBadInput("min_bytes is below 0");
  if (settings.host_cap < 0) ThrowBadInput("host_cap is below 0");
  // Opened before anything changes, so that a bad folder changes nothing.
  std::shared_ptr<swap::Tier> tier;
  if (!settings.file_dir.empty()) {
    tier = swap::OpenFileTier(settings.file_dir, settings.file_cap);
  }
  std::vector<DeviceEnginePtr> idle;
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.settings = settings;
  registry.tier = std::move(tier);
  for (auto& [name, entry] : registry.engines) {
    registry.retired.push_back(std::move(entry.engine));
  }
  registry.engines.clear();
  DropIdle(registry, idle);
}

DeviceEnginePtr EngineOf(c10::Device device, const PoolPtr& pool) {
  Registry& registry = TheRegistry();
  const Name name{static_cast<int>(device.type()), device.has_index() ? device.index() : 0,
                  pool.get()};
  const std::lock_guard<std::mutex> lock(registry.mutex);
  OfPool& entry = registry.engines[name];
  // Another pool may have had this one's address.
  if (entry.engine && pool && entry.pool.expired()) {
    registry.retired.push_back(std::exchange(entry.engine, nullptr));
  }
  if (!entry.engine) entry = {Make(registry, device, pool), pool};
  return entry.engine;
}

std::string ObstacleOf(c10::Device device) { return EngineOf(device)->obstacle; }

void ForEachEngine(const std::function<void(DeviceEngine&)>& call) {
  std::vector<DeviceEnginePtr> all, idle;
  {
    Registry& registry = TheRegistry();
    const std::lock_guard<std::mutex> lock(registry.mutex);
    DropIdle(registry, idle);
    for (auto& [name, entry] : registry.engines) all.push_back(entry.engine);
    all.insert(all.end(), registry.retired.begin(), registry.retired.end());
  }
  for (const DeviceEnginePtr& one : all) call(*one);
}

swap::Stats SumOfStats() {
  swap::Stats sum;
  ForEachEngine([&](DeviceEngine& one) { Add(sum, one.engine->stats()); });
  sum.recomputed_regions += recomputed_regions.load();
  return sum;
}

void ResetStats() {
  recomputed_regions.store(0);
  ForEachEngine([](DeviceEngine& one) { one.engine->ResetStats(); });
}

void CountRecomputedRegion() { recomputed_regions.fetch_add(1, std::memory_order_relaxed); }

void DrainAll() {
  ForEachEngine([](DeviceEngine& one) { one.engine->Drain(); });
}

void StartTrace() {
  {
    Registry& registry = TheRegistry();
    const std::lock_guard<std::mutex> lock(registry.mutex);
    registry.tracing = true;
  }
  ForEachEngine([](DeviceEngine& one) { one.engine->StartTrace(); });
}

std::vector<DeviceTrace> StopTrace() {
  {
    Registry& registry = TheRegistry();
    const std::lock_guard<std::mutex> lock(registry.mutex);
    registry.tracing = false;
  }
  std::vector<DeviceTrace> traces;
  ForEachEngine([&](DeviceEngine& one) {
    traces.push_back({one.name.str(), one.engine->StopTrace()});
  });
  return traces;
}

std::uint32_t ProcessGeneration() { return generation.load(std::memory_order_relaxed); }

}  // namespace restow::libtorch
