// Launching operators and copies, and waiting for them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "emulator/machine.h"
#include "emulator/races.h"

namespace restow::emulator {

struct StreamName {
  int device = 0;
  int stream = 0;
};

// An operator on its stream, from launch to the end of its kernel. The kernel runs on the calling
// thread between construction and destruction; both take the machine's lock for a moment.
class OperatorRun {
 public:
  // Carries out what is queued before it and checks `uses`. `name` as in "aten::mm".
  OperatorRun(StreamName stream, const std::string& name, std::vector<Use> uses);
  ~OperatorRun();
  OperatorRun(const OperatorRun&) = delete;
  OperatorRun& operator=(const OperatorRun&) = delete;

  // The write of a tensor that this operator makes, for Adopt().
  Access output() const;
  // Bytes of outputs, for the operator's cost.
  void AddBytes(std::uint64_t bytes) { bytes_ += bytes; }

 private:
  struct Saved {
    std::byte* data;
    std::vector<std::byte> bytes;
  };
  void HideEarlyReads(const std::vector<ByteRange>& ranges, const std::vector<Use>& uses);

  StreamState& stream_;
  std::unique_lock<std::recursive_mutex> kernel_;
  std::string name_;
  Label label_;
  Epoch epoch_;
  Ticks launched_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<Saved> saved_;  // what was replaced by poison while the kernel runs
};

// Copies within a device are operators.
enum class Direction { kHostToDevice, kDeviceToHost, kBetweenDevices };

struct Copy {
  StreamName stream;
  Direction direction = Direction::kHostToDevice;
  int peer = 0;  // kBetweenDevices: the device written
  std::uint64_t bytes = 0;
  std::vector<Use> uses;
  std::function<void()> move;  // moves the bytes; takes no lock
  bool wait = false;           // the host waits until it is done
};
void Launch(Copy copy);

// The host reads or writes memory that may be pinned.
void HostAccess(const std::string& name, const std::vector<Use>& uses);

// A place in a stream's queue, or nothing recorded yet: waits return at once, queries say done.
struct Event {
  StreamState* stream = nullptr;
  std::uint64_t place = 0;
  VectorClock clock;
  Ticks ready = 0;
  int clock_starts = 0;  // `ready` counts from this start of the clock
};
void RecordEvent(Event& event, StreamName stream);
void WaitEvent(const Event& event, StreamName stream);
void SyncEvent(const Event& event);
bool QueryEvent(const Event& event);
// Modelled time between two recorded events. Units: seconds.
double SecondsBetween(const Event& begin, const Event& end);

void SyncStream(StreamName stream);
bool QueryStream(StreamName stream);
void SyncDevice(int device);
// The stream given out by the next call for a new one.
int NewStream(int device);

// Waits for everything. With the lock held.
void SyncAll(Machine& m, Lock& lock);

}  // namespace restow::emulator
