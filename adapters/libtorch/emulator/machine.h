// The state of the emulated machine: devices, streams, memory, the host, all under one lock.
//
// Functions named with a `Lock&` expect it held on `Machine::mutex` and return with it held; those
// that wait may let go of it in between. No function calls torch while holding it, except for the
// moves of queued copies, which take no lock and call nothing back.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "emulator/emulator.h"
#include "emulator/history.h"
#include "emulator/time_line.h"
#include "emulator/vector_clock.h"

namespace restow::emulator {

inline constexpr int kDevices = 2;
// Stream 0 is the default stream; new streams take 1 to 32 in turn, as on CUDA.
inline constexpr int kStreams = 33;
inline constexpr int kHostMemory = -1;  // in place of a device, for pinned blocks

using Lock = std::unique_lock<std::mutex>;

// One allocation: device memory or pinned host memory.
struct Block {
  std::uint64_t id = 0;
  int device = kHostMemory;
  Actor home = kHost;  // the stream it was allocated on; freeing is ordered behind that stream
  std::uint64_t bytes = 0;
  std::byte* data = nullptr;
  std::shared_ptr<void> memory;  // keeps `data` alive
  Label maker = nullptr;
  History history;
  std::vector<Actor> recorded;  // streams that record_stream (or record_event) named
  int pending = 0;              // queued tasks that touch it
  bool poison_when_idle = false;
  std::string elements;  // their type, where known
};

struct StreamState;

// A copy to make, or a wait for another stream to reach a place in its queue.
struct Task {
  std::uint64_t place = 0;
  std::function<void()> move;
  StreamState* target = nullptr;
  std::uint64_t target_place = 0;
  Ticks end = 0;
  std::vector<std::shared_ptr<Block>> blocks;
};

struct StreamState {
  int device = 0;
  int id = 0;
  Actor actor = kHost;
  VectorClock clock;
  Ticks ready = 0;           // when all issued work is done, on the modelled time line
  std::uint64_t issued = 0;  // place of the last task queued
  std::uint64_t done = 0;    // place of the last task carried out
  std::deque<Task> queue;
  std::thread worker;  // Schedule::kThreads only
  // Held while an operator runs: one operator at a time per stream. Taken before Machine::mutex.
  std::recursive_mutex kernel;
};

struct DeviceState {
  DeviceOptions options;
  std::array<StreamState, kStreams> streams;
  int next_stream = 1;
  Resource compute, h2d, d2h;
  MemoryFigures memory;
  // Freed blocks that recorded streams still use until then.
  std::vector<std::pair<Ticks, std::uint64_t>> deferred;
};

struct Machine {
  Machine();

  std::mutex mutex;
  std::condition_variable moved;  // a task was queued or done, or workers are to stop
  Options options;
  std::array<DeviceState, kDevices> devices;
  bool stop_workers = false;
  std::mt19937_64 draws;

  VectorClock host;
  Ticks host_now = 0;  // virtual clock
  Ticks host_wait = 0;
  int clock_starts = 0;          // how often the clock was set to 0
  std::int64_t real_origin = 0;  // nanoseconds of the steady clock at 0

  std::map<std::uintptr_t, std::shared_ptr<Block>> live;   // by address
  std::map<std::uintptr_t, std::shared_ptr<Block>> freed;  // kept a while, to notice late readers
  std::deque<std::uintptr_t> freed_order;
  std::uint64_t freed_bytes = 0;
  std::uint64_t next_block = 1;
  std::uint64_t pinned_bytes = 0;

  std::vector<Race> races;
  std::set<std::string> race_keys;
  std::vector<TraceSpan> trace;
};

// The one machine. It is never destroyed: streams' threads and late tensors may outlive main.
Machine& TheMachine();

StreamState& StreamOf(Machine& m, int device, int stream);
// "emu:0 stream 3"; "host" for the host.
std::string ActorName(Actor actor);

// The host's time now.
Ticks HostNow(Machine& m);
// The host does something for a while. Virtual clock only; the real one runs by itself.
void SpendHost(Machine& m, Ticks ticks);
// The host waits until `until`.
void WaitHost(Machine& m, Lock& lock, Ticks until);
void ResetTime(Machine& m);
void AddTrace(Machine& m, const std::string& name, const StreamState& stream, Span span);

}  // namespace restow::emulator
