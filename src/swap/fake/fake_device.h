// A device in virtual time, for tests: copies have a bandwidth, compute has a cost, calls fail on
// demand, and every access that is not ordered after the one it depends on is an error.
//
// Work is placed on a timeline when it is queued, and its bytes move at once; what is checked is
// order, not luck: each stream and the host carry a vector clock, events hand clocks over, and an
// access is an error unless its clock has seen the last write (and, for a write or a free, all
// reads). So a missing wait is found every time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "restow/swap/device.h"

namespace restow::swap {

enum class Call : std::uint8_t {
  kAllocate,
  kAllocateHost,
  kCopyOut,
  kCopyIn,
  kCopyOnDevice,
  kNewEvent,
  kRecord,
  kStreamWait,
  kDone,
  kHostWait,
  kSynchronize,
};
inline constexpr int kCalls = 11;
const char* Name(Call call);

struct FakeOptions {
  double out_bytes_per_s = 1e9, in_bytes_per_s = 1e9;
  double copy_latency_s = 0;
  double launch_s = 0;  // host time per call that queues work
  std::size_t capacity = ~std::size_t{0};
  std::size_t host_limit = ~std::size_t{0}, pin_limit = ~std::size_t{0};
  Capabilities capabilities{true, true, 2, true, true, false};
  bool frees_in_order = true;  // device memory follows its stream's order
  bool watches = true;         // storages can be watched
};

// A failure that a test asked for.
struct FakeFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One stretch of work on one stream.
struct Span {
  std::uint64_t stream = 0;
  std::string label;
  double begin_s = 0, end_s = 0;
};

// Threads: any; one lock inside. All threads count as one host.
class FakeDevice : public Device, public std::enable_shared_from_this<FakeDevice> {
 public:
  static constexpr std::size_t kClocks = 8;  // the host and seven streams
  using Clock = std::array<std::uint64_t, kClocks>;

  explicit FakeDevice(FakeOptions options = {});
  ~FakeDevice() override;

  // The test's side.
  Stream NewStream(const std::string& name);
  void SetCurrentStream(Stream stream) { current_ = stream; }
  // Work of `seconds` on the current stream that reads and writes device memory.
  void Compute(const std::string& label, double seconds, const std::vector<DeviceMemory*>& reads,
               const std::vector<DeviceMemory*>& writes);
  // Compute that fills `memory` with a pattern of `seed`, or checks that it is there.
  void Fill(DeviceMemory& memory, std::uint64_t seed, double seconds = 0,
            const std::string& label = "fill");
  bool Holds(DeviceMemory& memory, std::size_t offset, std::size_t bytes, std::uint64_t seed,
             std::size_t skip = 0);
  // The host touches host memory now, as a tier's thread does.
  void HostAccess(const void* data, std::size_t bytes, bool writes, const char* who);
  void SetLabel(DeviceMemory& memory, const std::string& label);
  void AdvanceHost(double seconds);
  // The host waits for everything.
  void WaitAll();
  double Time() const;

  // The n-th call of a kind from now on throws, n from 1.
  void FailNth(Call call, std::uint64_t n);
  // Each call of that kind throws when it says so; null: none.
  void FailWhen(std::function<bool(Call)> fails);
  // Called on every call, before it does anything.
  void OnCall(std::function<void(Call)> hook);
  void SetOptions(const FakeOptions& options) { options_ = options; }
  const FakeOptions& options() const { return options_; }

  // Races and misuse found; empty in a sound run.
  std::vector<std::string> errors() const;
  std::vector<Span> spans() const;
  void ClearSpans();
  // One row per stream, one column per `column_s`: the first character of each span's label.
  std::string Draw(double column_s) const;
  std::size_t allocated_bytes() const;
  std::size_t peak_bytes() const;
  std::size_t host_bytes() const;
  std::uint64_t calls(Call call) const;
  std::uint64_t host_waits_that_waited() const;

  // Device.
  Capabilities capabilities() const noexcept override { return options_.capabilities; }
  Stream CurrentStream() override { return current_; }
  Stream NewCopyStream(Direction direction) override;
  void Synchronize(Stream stream) override;
  std::unique_ptr<Event> NewEvent() override;
  void Record(Event& event, Stream stream) override;
  void StreamWait(Stream stream, Event& event) override;
  bool Done(Event& event) override;
  void HostWait(Event& event) override;
  double EventSeconds(Event& event) override;
  double Now() override { return Time(); }
  DeviceBuffer Allocate(std::size_t bytes, Stream stream) override;
  void NoteUse(DeviceMemory& memory, Stream stream) override;
  void* HostAddress(DeviceMemory& memory) override;
  HostMemory AllocateHost(std::size_t bytes, bool pinned) override;
  void FreeHost(const HostMemory& memory) noexcept override;
  void CopyOut(void* to, DeviceMemory& from, std::size_t offset, std::size_t bytes,
               Stream stream) override;
  void CopyIn(DeviceMemory& to, std::size_t offset, const void* from, std::size_t bytes,
              Stream stream) override;
  void CopyOnDevice(DeviceMemory& to, std::size_t to_offset, DeviceMemory& from,
                    std::size_t from_offset, std::size_t bytes, Stream stream) override;

 private:
  class Memory;
  class FakeEvent;
  struct Access {
    std::size_t clock = 0;  // whose
    std::uint64_t at = 0;
    std::string what;
  };
  struct Range {
    std::size_t begin = 0, end = 0;
    Access write;
    std::vector<Access> reads;
    std::string label;
  };
  struct HostArea {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
    bool pinned = false;
    std::list<Range> ranges;
  };
  struct Queue {
    std::string name;
    double free_at_s = 0;
    Clock clock{};
  };

  void Enter(Call call);
  std::size_t Begin(Stream stream, const std::string& what);
  void Place(std::size_t queue, const std::string& label, double seconds);
  bool Sees(std::size_t reader, const Access& access) const;
  void Report(const std::string& text);
  void Touch(std::size_t who, std::list<Range>& ranges, std::size_t begin, std::size_t end,
             bool writes, const std::string& what);
  void CheckFree(Memory& memory) noexcept;
  Range& HostRange(const void* data, std::size_t bytes, std::size_t who, bool writes,
                   const std::string& what);
  HostArea* AreaOf(const void* data);
  void CheckBounds(const Memory& memory, std::size_t offset, std::size_t bytes,
                   const std::string& what);
  Memory& Mine(DeviceMemory& memory) const;

  FakeOptions options_;
  mutable std::recursive_mutex mutex_;
  Stream current_;
  std::vector<Queue> queues_;  // 0 is the host
  std::map<const std::byte*, HostArea> host_;
  std::map<const std::byte*, Memory*> memories_;
  std::array<std::uint64_t, kCalls> counts_{}, fail_at_{};
  std::function<bool(Call)> fails_;
  std::function<void(Call)> hook_;
  std::vector<std::string> errors_;
  std::vector<Span> spans_;
  std::size_t allocated_ = 0, peak_ = 0, host_bytes_ = 0, pinned_bytes_ = 0;
  std::uint64_t waited_ = 0;
};

}  // namespace restow::swap
