// The emulated accelerator: a torch device `emu` whose memory, streams, events and copies behave as
// an accelerator's do, with time that is modelled and a detector of missing synchronisation.
//
// For tests and demonstrations only. Loading the library registers the device with torch as its
// PrivateUse1 backend, which makes `emu` *the* accelerator of the process: never load it beside a
// real one. docs/emulator.md says what is modelled and what is not.
// Threads: every function may be called from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace restow::emulator {

// How far queued work runs ahead of what asks for it.
enum class Schedule {
  kEarly,    // at once
  kLate,     // only when something is ordered after it: the default, and the strictest
  kRandom,   // at a point drawn from the seed
  kThreads,  // on a thread per stream
};

enum class ClockKind {
  kVirtual,  // streams advance by modelled costs, the host by launches and waits
  kReal,     // the machine's steady clock; waits sleep until the modelled end of a copy
};

// Cost of an operator on the virtual clock: a fixed time plus its bytes (read and written) at a
// rate.
struct OperatorCost {
  double seconds = 0;
  double bytes_per_second = 0;  // 0: bytes cost nothing
};

// One device. Units: bytes, bytes per second.
struct DeviceOptions {
  std::uint64_t capacity_bytes = std::uint64_t{4} << 30;
  double h2d_bytes_per_second = 20e9;
  double d2h_bytes_per_second = 20e9;
  // By operator ("aten::mm"); "*" is for those not named. An empty map: operators take no time.
  std::map<std::string, OperatorCost> op_cost;
};

// The machine.
struct Options {
  Schedule schedule = Schedule::kLate;
  ClockKind clock = ClockKind::kVirtual;
  std::uint64_t seed = 0;
  double launch_s = 0;      // host time to launch an operator or a copy
  double poll_s = 1e-6;     // host time of one query of an event or stream, so that polling ends
  int devices = 2;          // how many are reported: 1 or 2
  bool one_stream = false;  // a new stream is the default stream, as on MPS
  bool pinned = true;       // false: "pinned" allocations are pageable, copies wait for the host
  std::optional<std::uint64_t> pinned_bytes;  // pinning beyond this fails
  bool opaque = false;  // device memory has a private layout; reading it as other types is refused
  bool trace = false;   // keep what ran when, for Trace()
};

// Two accesses of one tensor without an order between them.
struct Race {
  std::string kind;    // one of the names in docs/emulator.md: "missing wait before use", ...
  std::string tensor;  // "tensor 12, float32[4, 8] of emu:0, made by aten::mm"
  std::string first;   // operation and stream, as in "aten::mm on emu:0 stream 0"
  std::string second;
  bool operator==(const Race&) const = default;
};

// What ran when on the modelled time line. Units: seconds.
struct TraceSpan {
  std::string name;
  int device = 0;
  int stream = 0;
  double begin_s = 0;
  double end_s = 0;
};

struct MemoryFigures {
  std::uint64_t allocated_bytes = 0;  // of live storages
  std::uint64_t peak_allocated_bytes = 0;
  std::uint64_t active_bytes = 0;  // with those freed while recorded streams still use them
  std::uint64_t peak_active_bytes = 0;
  std::uint64_t allocations = 0;
  std::uint64_t out_of_memory_errors = 0;
};

// Waits for all devices, then changes the options. A change of clock restarts it at 0; a change of
// schedule or seed restarts the draws. Errors: kBadInput for values out of range.
void Configure(const Options& options);
Options CurrentOptions();
void ConfigureDevice(int device, const DeviceOptions& options);
DeviceOptions CurrentDeviceOptions(int device);

// Host time since the clock began. Units: seconds.
double Now();
// Host time spent waiting for streams and events. Units: seconds.
double HostWait();
// Waits for all devices, sets the clock, HostWait and the trace back to 0.
void RestartClock();

// In the order found, each kind of conflict between two operations on a tensor once.
std::vector<Race> Races();
void ClearRaces();
// Empty unless Options::trace.
std::vector<TraceSpan> Trace();

MemoryFigures Memory(int device);
void ResetPeakMemory(int device);
// Pinned host memory in use. Units: bytes.
std::uint64_t PinnedBytes();

// The names under which races are reported.
inline constexpr const char* kMissingWaitBeforeUse = "missing wait before use";
inline constexpr const char* kMissingWaitBeforeReuse = "missing wait before reuse";
inline constexpr const char* kEarlyFree = "early free";
inline constexpr const char* kReadAfterFree = "read after free";
inline constexpr const char* kHostReadEarly = "host block read early";
inline constexpr const char* kHostReusedEarly = "host block reused early";

}  // namespace restow::emulator
