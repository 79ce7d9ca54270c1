#include "emulator/work.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/memory.h"
#include "emulator/queues.h"

namespace restow::emulator {
namespace {

StreamState& Get(Machine& m, StreamName name) { return StreamOf(m, name.device, name.stream); }

Label On(const std::string& name, const StreamState& stream) {
  return Intern(name + " on " + ActorName(stream.actor));
}

// The next operation of `stream`, ordered after what it and the host have seen.
Operation NextOperation(Machine& m, StreamState& stream, Label label) {
  SpendHost(m, ToTicks(m.options.launch_s));
  stream.clock.Join(m.host);
  const Epoch epoch = stream.clock.Tick(stream.actor);
  return {label, epoch, &stream.clock};
}

std::byte* Pointer(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

Ticks CostOf(const DeviceOptions& options, const std::string& name, std::uint64_t bytes) {
  auto found = options.op_cost.find(name);
  if (found == options.op_cost.end()) found = options.op_cost.find("*");
  if (found == options.op_cost.end()) return 0;
  const OperatorCost& cost = found->second;
  return ToTicks(cost.seconds) +
         (cost.bytes_per_second > 0 ? TransferTicks(bytes, cost.bytes_per_second) : 0);
}

std::uint64_t BytesOf(const std::vector<Use>& uses) {
  std::uint64_t sum = 0;
  for (const Use& use : uses) {
    for (const ByteRange& range : use.ranges) sum += range.end - range.begin;
  }
  return sum;
}

// Books an operation on `resource`, behind the stream's earlier work.
Span Book(Machine& m, StreamState& stream, Resource& resource, Ticks length) {
  const Ticks now = HostNow(m);
  const Span span = resource.Book(std::max(now, stream.ready), length, now);
  stream.ready = span.end;
  return span;
}

const char* NameOf(Direction direction) {
  switch (direction) {
    case Direction::kHostToDevice:
      return "copy host to device";
    case Direction::kDeviceToHost:
      return "copy device to host";
    case Direction::kBetweenDevices:
      break;
  }
  return "copy between devices";
}

// A copy between devices takes both links: the source's way out, then the other's way in, at the
// slower of both rates.
Span BookCopy(Machine& m, StreamState& stream, const Copy& copy) {
  DeviceState& device = m.devices.at(stream.device);
  const DeviceOptions& options = device.options;
  switch (copy.direction) {
    case Direction::kHostToDevice:
      return Book(m, stream, device.h2d, TransferTicks(copy.bytes, options.h2d_bytes_per_second));
    case Direction::kDeviceToHost:
      return Book(m, stream, device.d2h, TransferTicks(copy.bytes, options.d2h_bytes_per_second));
    case Direction::kBetweenDevices:
      break;
  }
  DeviceState& peer = m.devices.at(copy.peer);
  const Ticks length = TransferTicks(
      copy.bytes, std::min(options.d2h_bytes_per_second, peer.options.h2d_bytes_per_second));
  const Span out = Book(m, stream, device.d2h, length);
  const Span in = peer.h2d.Book(out.begin, length, HostNow(m));
  stream.ready = in.end;
  return in;
}

std::vector<std::shared_ptr<Block>> BlocksOf(Machine& m, const std::vector<Use>& uses) {
  std::vector<std::shared_ptr<Block>> blocks;
  for (const Use& use : uses) {
    if (use.ranges.empty()) continue;
    auto block = FindLive(m, use.ranges.front().begin);
    if (block != nullptr) blocks.push_back(std::move(block));
  }
  return blocks;
}

bool Writes(const std::vector<Use>& uses, ByteRange read) {
  return std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
    return use.write && std::any_of(use.ranges.begin(), use.ranges.end(), [&](ByteRange range) {
             return range.begin < read.end && read.begin < range.end;
           });
  });
}

// What a copy delivers that read its source before that was written.
std::function<void()> MoveOfPoison(const std::vector<Use>& uses) {
  std::vector<ByteRange> written;
  for (const Use& use : uses) {
    if (use.write) written.insert(written.end(), use.ranges.begin(), use.ranges.end());
  }
  return [written = std::move(written)] {
    for (const ByteRange& range : written) {
      std::memset(Pointer(range.begin), kPoison, range.end - range.begin);
    }
  };
}

void SyncTo(Machine& m, Lock& lock, StreamState& stream, std::uint64_t place, Ticks ready,
            const VectorClock& clock) {
  WaitHost(m, lock, ready);
  RunUntil(m, lock, stream, place);
  m.host.Join(clock);
}

void SyncOne(Machine& m, Lock& lock, StreamState& stream) {
  const VectorClock clock = stream.clock;
  SyncTo(m, lock, stream, stream.issued, stream.ready, clock);
}

// When the event is done, on the clock as it runs now.
Ticks ReadyAt(const Machine& m, const Event& event) {
  return event.clock_starts == m.clock_starts ? event.ready : 0;
}

// Polling takes host time, so that a loop of it ends on the virtual clock.
bool ReadyNow(Machine& m, Ticks ready) {
  if (ready <= HostNow(m)) return true;
  SpendHost(m, ToTicks(m.options.poll_s));
  return false;
}

}  // namespace

OperatorRun::OperatorRun(StreamName stream, const std::string& name, std::vector<Use> uses)
    : stream_(Get(TheMachine(), stream)), kernel_(stream_.kernel), name_(name) {
  Machine& m = TheMachine();
  Lock lock(m.mutex);
  label_ = On(name, stream_);
  RunUntil(m, lock, stream_, stream_.issued);
  RunDrawn(m, lock);
  const Operation operation = NextOperation(m, stream_, label_);
  epoch_ = operation.epoch;
  launched_ = HostNow(m);
  bytes_ = BytesOf(uses);
  const auto early = CheckUses(m, uses, operation);
  if (m.options.schedule == Schedule::kLate) HideEarlyReads(early, uses);
}

OperatorRun::~OperatorRun() {
  for (const Saved& saved : saved_) {
    std::memcpy(saved.data, saved.bytes.data(), saved.bytes.size());
  }
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  DeviceState& device = m.devices.at(stream_.device);
  Ticks length = CostOf(device.options, name_, bytes_);
  if (m.options.clock == ClockKind::kReal) length = std::max(length, HostNow(m) - launched_);
  const Span span = device.compute.Book(std::max(launched_, stream_.ready), length, launched_);
  stream_.ready = std::max(stream_.ready, span.end);
  AddTrace(m, name_, stream_, span);
}

// The late schedule's answer to a read that is not ordered after its write: the write has not
// happened yet. What the operator writes itself stays as it leaves it.
void OperatorRun::HideEarlyReads(const std::vector<ByteRange>& ranges,
                                 const std::vector<Use>& uses) {
  for (const ByteRange& range : ranges) {
    std::byte* const data = Pointer(range.begin);
    if (!Writes(uses, range)) saved_.push_back({data, {data, data + (range.end - range.begin)}});
    std::memset(data, kPoison, range.end - range.begin);
  }
}

Access OperatorRun::output() const { return {AccessKind::kWrite, epoch_, label_}; }

void Launch(Copy copy) {
  Machine& m = TheMachine();
  Lock lock(m.mutex);
  StreamState& stream = Get(m, copy.stream);
  const char* const name = NameOf(copy.direction);
  const Operation operation = NextOperation(m, stream, On(name, stream));
  const bool early = !CheckUses(m, copy.uses, operation).empty();
  const Span span = BookCopy(m, stream, copy);
  AddTrace(m, name, stream, span);
  Task task;
  task.move = early && m.options.schedule == Schedule::kLate ? MoveOfPoison(copy.uses)
                                                             : std::move(copy.move);
  task.end = span.end;
  task.blocks = BlocksOf(m, copy.uses);
  Push(m, lock, stream, std::move(task));
  if (copy.wait) SyncOne(m, lock, stream);
}

void HostAccess(const std::string& name, const std::vector<Use>& uses) {
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  const Epoch epoch = m.host.Tick(kHost);
  CheckUses(m, uses, {Intern(name + " on the host"), epoch, &m.host});
}

void RecordEvent(Event& event, StreamName name) {
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  StreamState& stream = Get(m, name);
  stream.clock.Join(m.host);
  event.stream = &stream;
  event.place = stream.issued;
  event.clock = stream.clock;
  event.ready = std::max(stream.ready, HostNow(m));
  event.clock_starts = m.clock_starts;
}

void WaitEvent(const Event& event, StreamName name) {
  Machine& m = TheMachine();
  Lock lock(m.mutex);
  StreamState& stream = Get(m, name);
  if (event.stream == nullptr || event.stream == &stream) return;
  stream.clock.Join(event.clock);
  stream.ready = std::max(stream.ready, ReadyAt(m, event));
  if (event.stream->done >= event.place) return;
  Task task;
  task.target = event.stream;
  task.target_place = event.place;
  Push(m, lock, stream, std::move(task));
}

void SyncEvent(const Event& event) {
  Machine& m = TheMachine();
  Lock lock(m.mutex);
  if (event.stream == nullptr) return;
  SyncTo(m, lock, *event.stream, event.place, ReadyAt(m, event), event.clock);
}

bool QueryEvent(const Event& event) {
  Machine& m = TheMachine();
  Lock lock(m.mutex);
  RunDrawn(m, lock);
  if (event.stream == nullptr) return true;
  if (!ReadyNow(m, ReadyAt(m, event))) return false;
  SyncTo(m, lock, *event.stream, event.place, ReadyAt(m, event), event.clock);
  return true;
}

double SecondsBetween(const Event& begin, const Event& end) {
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  return ToSeconds(end.ready - begin.ready);
}

void SyncStream(StreamName name) {
  Machine& m = TheMachine();
  Lock lock(m.mutex);
  SyncOne(m, lock, Get(m, name));
}

bool QueryStream(StreamName name) {
  Machine& m = TheMachine();
  Lock lock(m.mutex);
  RunDrawn(m, lock);
  StreamState& stream = Get(m, name);
  if (!ReadyNow(m, stream.ready)) return false;
  SyncOne(m, lock, stream);
  return true;
}

void SyncDevice(int device) {
  Machine& m = TheMachine();
  Lock lock(m.mutex);
  for (StreamState& stream : m.devices.at(device).streams) SyncOne(m, lock, stream);
}

int NewStream(int device) {
  Machine& m = TheMachine();
  const Lock lock(m.mutex);
  if (m.options.one_stream) return 0;
  int& next = m.devices.at(device).next_stream;
  const int stream = next;
  next = next % (kStreams - 1) + 1;
  return stream;
}

void SyncAll(Machine& m, Lock& lock) {
  for (DeviceState& device : m.devices) {
    for (StreamState& stream : device.streams) SyncOne(m, lock, stream);
  }
}

}  // namespace restow::emulator
