// How an engine behaves; every field has a default that is right for a first try.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "restow/base/quantity.h"
#include "restow/schema/activation_plan.h"

namespace restow::swap {

class HostPool;
class Tier;

enum class WhenFull : std::uint8_t {
  kOrder,  // make the compute stream wait for the oldest copy; the host waits only where it must
  kWait,   // the host waits for the oldest copy
  kKeep,   // leave the new tensor on the device
};

enum class PinFailure : std::uint8_t { kPageable, kKeep };

struct Options {
  // Device memory the engine may hold in transit, per direction: leaving, and brought back. One
  // unit always passes, however large.
  Bytes window = Bytes(512 * kMiB);
  WhenFull when_full = WhenFull::kOrder;
  // Used by the engine's own pool; ignored with a pool given.
  Bytes host_cap = Bytes(std::numeric_limits<std::int64_t>::max());
  PinFailure pin_failure = PinFailure::kPageable;
  // Shared by several engines of one device; null: the engine makes its own.
  std::shared_ptr<HostPool> pool;
  // Below the host pool; null: none.
  std::shared_ptr<Tier> tier;
  // Bytes below which a tensor nobody named stays where it is, or travels in a fused copy.
  Bytes min_bytes = Bytes(kMiB);
  Bytes fused_bytes = Bytes(4 * kMiB);  // a fused copy is closed at this size
  // The region that saved last before its own backward is left on the device, once that is known.
  bool keep_last_region = true;
  // A unit brought back stays until its slots die. False: it is given up when another unit is
  // used, and copied back once more should it be needed again.
  bool keep_after_use = true;
  int prefetch_distance = 1;       // units asked for ahead, at first
  int max_prefetch_distance = 64;  // grows up to this as stalls are seen
  std::size_t recorded = 1024;     // transitions remembered
  // Seconds after which an unfinished copy makes the watchdog call `on_trouble`; 0: no watchdog.
  double watchdog_s = 0;
  // Called, from any thread and without the engine's lock, with the last transitions as text.
  std::function<void(const std::string&)> on_trouble;
};

// Window, host cap and last region as a plan states them; sizes of 0 leave the default.
Options FromPlan(const ActivationPlan& plan);

enum class Steering : std::uint8_t {
  kAutomatic,  // copies start at pack, come back by the schedule
  kManual,     // a group's launch and wait calls say when; an unpack that comes first still works
};

enum class Place : std::uint8_t { kHost, kFile };

struct RegionOptions {
  std::string site;   // names the place in the program: the schedule is learnt per site
  std::string group;  // empty: no group
  Steering steering = Steering::kAutomatic;
  Place place = Place::kHost;
  bool fuse = false;            // small tensors travel in fused copies instead of staying
  std::int64_t min_bytes = -1;  // -1: the engine's
};

enum class Decision : std::uint8_t {
  kAutomatic,  // by size
  kKeep,       // stays on the device; so does the whole storage
  kSwap,       // moves, whatever its size
};

// Why a saved tensor was or was not moved.
enum class Reason : std::uint8_t {
  kSwapped,
  kShared,  // its storage was saved before; one unit serves both
  kFused,
  kWaitsForLaunch,
  kKeptByCaller,
  kKeptSmall,
  kKeptEmpty,
  kKeptLastRegion,
  kKeptWindowFull,
  kKeptHostFull,
  kKeptDeviceError,
};
const char* Sentence(Reason reason);

}  // namespace restow::swap
