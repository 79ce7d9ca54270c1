#include "swap/fake/fake_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "swap/table_lock.h"

namespace restow::swap {
namespace {

using Held = std::lock_guard<std::recursive_mutex>;

constexpr std::byte kPoison{0xDB};

std::byte Pattern(std::uint64_t seed, std::size_t i) {
  return static_cast<std::byte>((seed * 0x9E3779B97F4A7C15u + i * 131) >> 16);
}

}  // namespace

class FakeDevice::Memory : public DeviceMemory {
 public:
  Memory(std::shared_ptr<FakeDevice> device, std::size_t size, Stream stream)
      : owner(std::move(device)), bytes_of(size, kPoison), home(stream) {}
  ~Memory() override {
    owner->CheckFree(*this);
    // Whoever still reads this finds poison.
    std::fill(bytes_of.begin(), bytes_of.end(), kPoison);
  }
  std::size_t bytes() const noexcept override { return bytes_of.size(); }
  bool FreesInOrderOf(Stream stream) const noexcept override {
    if (TableLock::HeldByThisThread()) owner->Report("the table lock is held across a call");
    return owner->options_.frees_in_order && stream == home;
  }
  std::shared_ptr<const StorageWatch> Watch() const override {
    if (TableLock::HeldByThisThread()) owner->Report("the table lock is held across a call");
    if (!owner->options_.watches) return nullptr;
    struct Life : StorageWatch {
      explicit Life(const std::weak_ptr<int>& watched) : life(watched) {}
      bool Alive() const noexcept override { return !life.expired(); }
      std::weak_ptr<int> life;
    };
    return std::make_shared<Life>(storage);
  }

  std::shared_ptr<FakeDevice> owner;
  std::vector<std::byte> bytes_of;
  Stream home;
  std::vector<std::size_t> noted;  // streams whose use delays the free
  std::list<Range> ranges;
  std::string label = "?";
  std::shared_ptr<int> storage = std::make_shared<int>(0);
};

class FakeDevice::FakeEvent : public Event {
 public:
  double at_s = 0;
  Clock clock{};
  bool recorded = false;
};

const char* Name(Call call) {
  constexpr std::array<const char*, kCalls> names = {
      "Allocate", "AllocateHost", "CopyOut", "CopyIn",   "CopyOnDevice", "NewEvent",
      "Record",   "StreamWait",   "Done",    "HostWait", "Synchronize"};
  return names[static_cast<std::size_t>(call)];
}

FakeDevice::FakeDevice(FakeOptions options) : options_(options) {
  queues_.push_back({"host", 0, {}});
  current_ = NewStream("compute");
}

FakeDevice::~FakeDevice() = default;

Stream FakeDevice::NewStream(const std::string& name) {
  const Held held(mutex_);
  if (queues_.size() == kClocks) throw std::length_error("the fake device has seven streams");
  queues_.push_back({name, 0, {}});
  return Stream{queues_.size() - 1};
}

Stream FakeDevice::NewCopyStream(Direction direction) {
  if (options_.capabilities.copy_streams == 1) return NewStream("copy");
  return NewStream(direction == Direction::kOut ? "out" : "in");
}

// Counts the call, and fails it when that was asked for.
void FakeDevice::Enter(Call call) {
  if (TableLock::HeldByThisThread()) Report(fmt::format("{}: the table lock is held", Name(call)));
  std::function<void(Call)> hook;
  {
    const Held held(mutex_);
    hook = hook_;
  }
  if (hook) hook(call);
  const Held held(mutex_);
  const auto i = static_cast<std::size_t>(call);
  ++counts_[i];
  if (fail_at_[i] == counts_[i] || (fails_ && fails_(call))) {
    throw FakeFailure(fmt::format("{} number {} failed as asked", Name(call), counts_[i]));
  }
}

void FakeDevice::Report(const std::string& text) {
  const Held held(mutex_);
  errors_.push_back(text);
}

// Work is queued on a stream: it knows what the stream and the host knew before.
std::size_t FakeDevice::Begin(Stream stream, const std::string& what) {
  const auto q = static_cast<std::size_t>(stream.id);
  if (q == 0 || q >= queues_.size()) throw std::out_of_range("no such stream: " + what);
  queues_[0].free_at_s += options_.launch_s;
  Clock& clock = queues_[q].clock;
  for (std::size_t i = 0; i < kClocks; ++i) clock[i] = std::max(clock[i], queues_[0].clock[i]);
  ++clock[q];
  return q;
}

void FakeDevice::Place(std::size_t queue, const std::string& label, double seconds) {
  Queue& q = queues_[queue];
  const double begin = std::max(q.free_at_s, queues_[0].free_at_s);
  q.free_at_s = begin + seconds;
  if (seconds > 0) spans_.push_back({queue, label, begin, q.free_at_s});
}

bool FakeDevice::Sees(std::size_t reader, const Access& access) const {
  return access.at == 0 || queues_[reader].clock[access.clock] >= access.at;
}

// `who` reads or writes bytes [begin, end): ranges are split so that each has one history.
void FakeDevice::Touch(std::size_t who, std::list<Range>& ranges, std::size_t begin,
                       std::size_t end, bool writes, const std::string& what) {
  if (begin == end) return;
  const Access access{who, queues_[who].clock[who], what};
  std::size_t covered = begin;
  for (auto range = ranges.begin(); range != ranges.end(); ++range) {
    if (range->end <= begin || range->begin >= end) continue;
    if (!Sees(who, range->write)) {
      Report(fmt::format("{} is not ordered after {}", what, range->write.what));
    }
    for (const Access& read : range->reads) {
      if (writes && !Sees(who, read)) {
        Report(fmt::format("{} is not ordered after {}", what, read.what));
      }
    }
    if (range->begin < begin) {
      Range head = *range;
      head.end = range->begin = begin;
      ranges.insert(range, head);
    }
    if (range->end > end) {
      Range tail = *range;
      tail.begin = range->end = end;
      ranges.insert(std::next(range), tail);
    }
    covered += range->end - range->begin;
    if (!writes) {
      std::erase_if(range->reads, [&](const Access& read) { return Sees(who, read); });
      range->reads.push_back(access);
    }
  }
  if (!writes) {
    // Copies may carry the gaps between small tensors along; a use may not read any.
    const bool use = what.rfind("copy", 0) != 0;
    if (covered == begin || (use && covered < end)) Report(what + " reads bytes nobody wrote");
    return;
  }
  std::erase_if(ranges, [&](const Range& r) { return r.begin >= begin && r.end <= end; });
  Range fresh{begin, end, access, {}, {}};
  const auto after =
      std::find_if(ranges.begin(), ranges.end(), [&](const Range& r) { return r.begin >= end; });
  ranges.insert(after, fresh);
}

// Memory is freed now: whoever gets it next on its stream must not meet work under way.
void FakeDevice::CheckFree(Memory& memory) noexcept {
  if (TableLock::HeldByThisThread()) Report("device memory is freed under the table lock");
  const Held held(mutex_);
  allocated_ -= memory.bytes_of.size();
  memories_.erase(memory.bytes_of.data());
  const auto home = static_cast<std::size_t>(memory.home.id);
  const auto seen = [&](const Access& access) {
    if (Sees(0, access)) return true;
    if (std::count(memory.noted.begin(), memory.noted.end(), access.clock) != 0) return true;
    if (!options_.frees_in_order) return access.clock == home;  // the caller's own compute
    if (Sees(home, access)) return true;
    // A use noted on another stream delays the free until that stream is through, and so until
    // what that stream waited for.
    return std::any_of(memory.noted.begin(), memory.noted.end(),
                       [&](std::size_t noted) { return Sees(noted, access); });
  };
  for (const Range& range : memory.ranges) {
    if (!seen(range.write)) Report("freed '" + memory.label + "' before " + range.write.what);
    for (const Access& read : range.reads) {
      if (!seen(read)) Report("freed '" + memory.label + "' before " + read.what);
    }
  }
}

void FakeDevice::CheckBounds(const Memory& memory, std::size_t offset, std::size_t bytes,
                             const std::string& what) {
  if (offset <= memory.bytes() && bytes <= memory.bytes() - offset) return;
  Report(what + " is beyond the end of the memory");
  throw std::out_of_range(what);
}

FakeDevice::Memory& FakeDevice::Mine(DeviceMemory& memory) const {
  return dynamic_cast<Memory&>(memory);
}

DeviceBuffer FakeDevice::Allocate(std::size_t bytes, Stream stream) {
  Enter(Call::kAllocate);
  const Held held(mutex_);
  if (bytes > options_.capacity || allocated_ > options_.capacity - bytes) {
    throw FakeFailure(fmt::format("out of device memory: {} of {} bytes are in use, {} are wanted",
                                  allocated_, options_.capacity, bytes));
  }
  allocated_ += bytes;
  peak_ = std::max(peak_, allocated_);
  auto memory = std::make_shared<Memory>(shared_from_this(), bytes, stream);
  if (bytes > 0) memories_[memory->bytes_of.data()] = memory.get();
  return memory;
}

void FakeDevice::NoteUse(DeviceMemory& memory, Stream stream) {
  const Held held(mutex_);
  Mine(memory).noted.push_back(static_cast<std::size_t>(stream.id));
}

void* FakeDevice::HostAddress(DeviceMemory& memory) { return Mine(memory).bytes_of.data(); }

HostMemory FakeDevice::AllocateHost(std::size_t bytes, bool pinned) {
  Enter(Call::kAllocateHost);
  const Held held(mutex_);
  if (bytes > options_.host_limit || host_bytes_ > options_.host_limit - bytes) {
    throw FakeFailure(fmt::format("out of host memory: {} bytes are wanted", bytes));
  }
  if (pinned && (!options_.capabilities.pinned_memory || bytes > options_.pin_limit ||
                 pinned_bytes_ > options_.pin_limit - bytes)) {
    throw FakeFailure(fmt::format("{} bytes cannot be pinned", bytes));
  }
  HostArea area;
  area.bytes = std::make_unique<std::byte[]>(bytes);
  area.size = bytes;
  area.pinned = pinned;
  std::fill_n(area.bytes.get(), bytes, kPoison);
  std::byte* data = area.bytes.get();
  host_bytes_ += bytes;
  if (pinned) pinned_bytes_ += bytes;
  host_.emplace(data, std::move(area));
  return {data, bytes, pinned, nullptr};
}

void FakeDevice::FreeHost(const HostMemory& memory) noexcept {
  if (TableLock::HeldByThisThread()) Report("FreeHost: the table lock is held");
  const Held held(mutex_);
  const auto found = host_.find(static_cast<const std::byte*>(memory.data));
  if (found == host_.end()) return Report("host memory is freed twice");
  for (const Range& range : found->second.ranges) {
    if (!Sees(0, range.write)) Report("host memory is freed before " + range.write.what);
    for (const Access& read : range.reads) {
      if (!Sees(0, read)) Report("host memory is freed before " + read.what);
    }
  }
  host_bytes_ -= memory.bytes;
  if (memory.pinned) pinned_bytes_ -= memory.bytes;
  host_.erase(found);
}

FakeDevice::HostArea* FakeDevice::AreaOf(const void* data) {
  const auto* at = static_cast<const std::byte*>(data);
  auto found = host_.upper_bound(at);
  if (found == host_.begin()) return nullptr;
  --found;
  return at < found->first + found->second.size ? &found->second : nullptr;
}

// Checks an access to host memory, and gives the range it lies in.
FakeDevice::Range& FakeDevice::HostRange(const void* data, std::size_t bytes, std::size_t who,
                                         bool writes, const std::string& what) {
  HostArea* area = AreaOf(data);
  if (area == nullptr) throw std::out_of_range(what + ": no such host memory");
  const auto begin =
      static_cast<std::size_t>(static_cast<const std::byte*>(data) - area->bytes.get());
  Touch(who, area->ranges, begin, begin + bytes, writes, what);
  const auto found = std::find_if(area->ranges.begin(), area->ranges.end(), [&](const Range& r) {
    return r.begin <= begin && begin < r.end;
  });
  if (found == area->ranges.end()) throw std::out_of_range(what + ": host bytes nobody wrote");
  return *found;
}

void FakeDevice::HostAccess(const void* data, std::size_t bytes, bool writes, const char* who) {
  const Held held(mutex_);
  ++queues_[0].clock[0];
  const auto* at = static_cast<const std::byte*>(data);
  auto memory = memories_.upper_bound(at);
  if (memory != memories_.begin() && at < (--memory)->first + memory->second->bytes_of.size()) {
    const auto begin = static_cast<std::size_t>(at - memory->first);
    Touch(0, memory->second->ranges, begin, begin + bytes, writes, who);
    return;
  }
  HostRange(data, bytes, 0, writes, who);
}

void FakeDevice::CopyOut(void* to, DeviceMemory& from, std::size_t offset, std::size_t bytes,
                         Stream stream) {
  Enter(Call::kCopyOut);
  const Held held(mutex_);
  Memory& memory = Mine(from);
  const std::string what = "copy out of '" + memory.label + "'";
  CheckBounds(memory, offset, bytes, what);
  const std::size_t q = Begin(stream, what);
  Place(q, memory.label,
        options_.copy_latency_s + static_cast<double>(bytes) / options_.out_bytes_per_s);
  Touch(q, memory.ranges, offset, offset + bytes, false, what);
  HostRange(to, bytes, q, true, what).label = memory.label;
  std::memcpy(to, memory.bytes_of.data() + offset, bytes);
}

void FakeDevice::CopyIn(DeviceMemory& to, std::size_t offset, const void* from, std::size_t bytes,
                        Stream stream) {
  Enter(Call::kCopyIn);
  const Held held(mutex_);
  Memory& memory = Mine(to);
  const std::string what = "copy in of " + std::to_string(bytes) + " bytes";
  CheckBounds(memory, offset, bytes, what);
  const std::size_t q = Begin(stream, what);
  const Range& range = HostRange(from, bytes, q, false, what);
  if (!range.label.empty()) memory.label = range.label;
  Place(q, memory.label,
        options_.copy_latency_s + static_cast<double>(bytes) / options_.in_bytes_per_s);
  Touch(q, memory.ranges, offset, offset + bytes, true, what + " '" + memory.label + "'");
  std::memcpy(memory.bytes_of.data() + offset, from, bytes);
}

void FakeDevice::CopyOnDevice(DeviceMemory& to, std::size_t to_offset, DeviceMemory& from,
                              std::size_t from_offset, std::size_t bytes, Stream stream) {
  Enter(Call::kCopyOnDevice);
  const Held held(mutex_);
  Memory& target = Mine(to);
  Memory& source = Mine(from);
  const std::string what = "copy on device from '" + source.label + "'";
  CheckBounds(source, from_offset, bytes, what);
  CheckBounds(target, to_offset, bytes, what);
  const std::size_t q = Begin(stream, what);
  Place(q, source.label, 0);
  Touch(q, source.ranges, from_offset, from_offset + bytes, false, what);
  Touch(q, target.ranges, to_offset, to_offset + bytes, true, what);
  std::memcpy(target.bytes_of.data() + to_offset, source.bytes_of.data() + from_offset, bytes);
}

std::unique_ptr<Event> FakeDevice::NewEvent() {
  Enter(Call::kNewEvent);
  return std::make_unique<FakeEvent>();
}

void FakeDevice::Record(Event& event, Stream stream) {
  Enter(Call::kRecord);
  const Held held(mutex_);
  auto& mine = dynamic_cast<FakeEvent&>(event);
  const std::size_t q = Begin(stream, "record");
  // An event on an idle stream is reached when the host gets there.
  mine.at_s = std::max(queues_[q].free_at_s, queues_[0].free_at_s);
  mine.clock = queues_[q].clock;
  mine.recorded = true;
}

void FakeDevice::StreamWait(Stream stream, Event& event) {
  Enter(Call::kStreamWait);
  const Held held(mutex_);
  const auto& mine = dynamic_cast<FakeEvent&>(event);
  const std::size_t q = Begin(stream, "wait");
  queues_[q].free_at_s = std::max(queues_[q].free_at_s, mine.at_s);
  for (std::size_t i = 0; i < kClocks; ++i) {
    queues_[q].clock[i] = std::max(queues_[q].clock[i], mine.clock[i]);
  }
}

bool FakeDevice::Done(Event& event) {
  Enter(Call::kDone);
  const Held held(mutex_);
  const auto& mine = dynamic_cast<FakeEvent&>(event);
  if (mine.at_s > queues_[0].free_at_s) return false;
  for (std::size_t i = 0; i < kClocks; ++i) {
    queues_[0].clock[i] = std::max(queues_[0].clock[i], mine.clock[i]);
  }
  return true;
}

void FakeDevice::HostWait(Event& event) {
  Enter(Call::kHostWait);
  const Held held(mutex_);
  const auto& mine = dynamic_cast<FakeEvent&>(event);
  if (mine.at_s > queues_[0].free_at_s) ++waited_;
  queues_[0].free_at_s = std::max(queues_[0].free_at_s, mine.at_s);
  for (std::size_t i = 0; i < kClocks; ++i) {
    queues_[0].clock[i] = std::max(queues_[0].clock[i], mine.clock[i]);
  }
}

double FakeDevice::EventSeconds(Event& event) {
  const Held held(mutex_);
  return dynamic_cast<const FakeEvent&>(event).at_s;
}

void FakeDevice::Synchronize(Stream stream) {
  Enter(Call::kSynchronize);
  const Held held(mutex_);
  const Queue& q = queues_.at(static_cast<std::size_t>(stream.id));
  queues_[0].free_at_s = std::max(queues_[0].free_at_s, q.free_at_s);
  for (std::size_t i = 0; i < kClocks; ++i) {
    queues_[0].clock[i] = std::max(queues_[0].clock[i], q.clock[i]);
  }
}

void FakeDevice::WaitAll() {
  const Held held(mutex_);
  for (const Queue& q : queues_) {
    queues_[0].free_at_s = std::max(queues_[0].free_at_s, q.free_at_s);
    for (std::size_t i = 0; i < kClocks; ++i) {
      queues_[0].clock[i] = std::max(queues_[0].clock[i], q.clock[i]);
    }
  }
}

void FakeDevice::Compute(const std::string& label, double seconds,
                         const std::vector<DeviceMemory*>& reads,
                         const std::vector<DeviceMemory*>& writes) {
  const Held held(mutex_);
  const std::size_t q = Begin(current_, label);
  Place(q, label, seconds);
  for (DeviceMemory* memory : reads) {
    Touch(q, Mine(*memory).ranges, 0, memory->bytes(), false, "compute '" + label + "'");
  }
  for (DeviceMemory* memory : writes) {
    Touch(q, Mine(*memory).ranges, 0, memory->bytes(), true, "compute '" + label + "'");
  }
}

void FakeDevice::Fill(DeviceMemory& memory, std::uint64_t seed, double seconds,
                      const std::string& label) {
  const Held held(mutex_);
  Compute(label, seconds, {}, {&memory});
  Memory& mine = Mine(memory);
  mine.label = label;
  for (std::size_t i = 0; i < mine.bytes_of.size(); ++i) mine.bytes_of[i] = Pattern(seed, i);
}

bool FakeDevice::Holds(DeviceMemory& memory, std::size_t offset, std::size_t bytes,
                       std::uint64_t seed, std::size_t skip) {
  const Held held(mutex_);
  Memory& mine = Mine(memory);
  const std::size_t q = Begin(current_, "check");
  Touch(q, mine.ranges, offset, offset + bytes, false, "use of '" + mine.label + "'");
  for (std::size_t i = 0; i < bytes; ++i) {
    if (mine.bytes_of[offset + i] != Pattern(seed, skip + i)) return false;
  }
  return true;
}

void FakeDevice::SetLabel(DeviceMemory& memory, const std::string& label) {
  Mine(memory).label = label;
}

void FakeDevice::AdvanceHost(double seconds) {
  const Held held(mutex_);
  queues_[0].free_at_s += seconds;
}

double FakeDevice::Time() const {
  const Held held(mutex_);
  return queues_[0].free_at_s;
}

void FakeDevice::FailNth(Call call, std::uint64_t n) {
  const Held held(mutex_);
  const auto i = static_cast<std::size_t>(call);
  fail_at_[i] = counts_[i] + n;
}

void FakeDevice::FailWhen(std::function<bool(Call)> fails) {
  const Held held(mutex_);
  fails_ = std::move(fails);
}

void FakeDevice::OnCall(std::function<void(Call)> hook) {
  const Held held(mutex_);
  hook_ = std::move(hook);
}

std::vector<std::string> FakeDevice::errors() const {
  const Held held(mutex_);
  return errors_;
}

std::vector<Span> FakeDevice::spans() const {
  const Held held(mutex_);
  return spans_;
}

void FakeDevice::ClearSpans() {
  const Held held(mutex_);
  spans_.clear();
}

std::string FakeDevice::Draw(double column_s) const {
  const Held held(mutex_);
  double begin = 0, end = 0;
  for (const Span& span : spans_) {
    begin = &span == &spans_.front() ? span.begin_s : std::min(begin, span.begin_s);
    end = std::max(end, span.end_s);
  }
  const auto column = [&](double s) {
    return static_cast<std::size_t>(std::llround((s - begin) / column_s));
  };
  std::string drawing;
  for (std::size_t q = 1; q < queues_.size(); ++q) {
    std::string row(column(end), '.');
    for (const Span& span : spans_) {
      if (span.stream != q) continue;
      for (std::size_t c = column(span.begin_s); c < column(span.end_s); ++c) {
        row[c] = span.label.empty() ? '?' : span.label.front();
      }
    }
    while (!row.empty() && row.back() == '.') row.pop_back();
    drawing += fmt::format("{:8}|{}\n", queues_[q].name, row);
  }
  return drawing;
}

std::size_t FakeDevice::allocated_bytes() const {
  const Held held(mutex_);
  return allocated_;
}
std::size_t FakeDevice::peak_bytes() const {
  const Held held(mutex_);
  return peak_;
}
std::size_t FakeDevice::host_bytes() const {
  const Held held(mutex_);
  return host_bytes_;
}
std::uint64_t FakeDevice::calls(Call call) const {
  const Held held(mutex_);
  return counts_[static_cast<std::size_t>(call)];
}
std::uint64_t FakeDevice::host_waits_that_waited() const {
  const Held held(mutex_);
  return waited_;
}

}  // namespace restow::swap
