// What the engine's core costs. Checks its answers first, then prints:
//   register, lookup, release   table work per saved tensor at 10,000 live slots, and their sum
//   swap_path                   the same with a move: a device whose calls cost nothing
//   steady_state                1,000 steps of 24 layers: host allocations, growth, reserved/used
//   makespan                    forward and backward over max(compute, copies) + fill and drain
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "restow/swap/engine.h"
#include "swap/fake/fake_device.h"
#include "swap/testing/program.h"

namespace restow::swap {
namespace {

constexpr std::size_t kLive = 10000;
constexpr std::size_t kUnit = 6400;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "core_bench: wrong answer: %s\n", what);
  std::exit(1);
}

struct NoMemory : DeviceMemory {
  std::size_t bytes() const noexcept override { return 4096; }
  bool FreesInOrderOf(Stream) const noexcept override { return true; }
};

// A device that does nothing: what is left is the engine's own work.
class NoDevice : public Device {
 public:
  Capabilities capabilities() const noexcept override { return {}; }
  Stream CurrentStream() override { return {1}; }
  Stream NewCopyStream(Direction direction) override {
    return {direction == Direction::kOut ? std::uint64_t{2} : std::uint64_t{3}};
  }
  void Synchronize(Stream) override {}
  std::unique_ptr<Event> NewEvent() override { return std::make_unique<Event>(); }
  void Record(Event&, Stream) override {}
  void StreamWait(Stream, Event&) override {}
  bool Done(Event&) override { return true; }
  void HostWait(Event&) override {}
  double Now() override { return 0; }
  DeviceBuffer Allocate(std::size_t, Stream) override { return memory_; }
  HostMemory AllocateHost(std::size_t bytes, bool pinned) override {
    return {std::malloc(bytes), bytes, pinned, nullptr};
  }
  void FreeHost(const HostMemory& memory) noexcept override { std::free(memory.data); }
  void CopyOut(void*, DeviceMemory&, std::size_t, std::size_t, Stream) override {}
  void CopyIn(DeviceMemory&, std::size_t, const void*, std::size_t, Stream) override {}

 private:
  DeviceBuffer memory_ = std::make_shared<NoMemory>();
};

// 10,000 live slots in a ring, the oldest replaced by the newest.
class Ring {
 public:
  explicit Ring(Decision decision) : decision_(decision) {
    Options options;
    options.min_bytes = Bytes(0);
    options.keep_last_region = false;
    engine_ = std::make_unique<Engine>(std::make_shared<NoDevice>(), options);
    RegionOptions where;
    where.site = "bench";
    region_ = engine_->Begin(where);
    storage_.memory = std::make_shared<NoMemory>();
    storage_.bytes = 4096;
    slots_.resize(kLive);
    for (std::size_t i = 0; i < kLive; ++i) slots_[i] = Register();
    Require(engine_->stats().slots == static_cast<std::int64_t>(kLive), "10,000 slots are alive");
  }

  Slot Register() {
    storage_.identity = ++identity_ * 64;
    return region_.Pack(storage_, decision_);
  }
  // The storage that was registered `before` registrations ago, from 0.
  Slot Lookup(std::size_t before) {
    storage_.identity = (identity_ - before) * 64;
    return region_.Pack(storage_, decision_);
  }
  Slot& Oldest() { return slots_[next_++ % kLive]; }
  Engine& engine() { return *engine_; }
  // A fresh region, as each invocation of a module has one.
  void NextRegion() {
    RegionOptions where;
    where.site = "bench";
    region_ = engine_->Begin(where);
    engine_->Step();
  }

 private:
  Decision decision_;
  std::unique_ptr<Engine> engine_;
  Region region_;
  Storage storage_;
  std::vector<Slot> slots_;
  std::uint64_t identity_ = 0;
  std::size_t next_ = 0;
};

// CPU time of this thread: other programs on the machine do not count, only their use of caches.
double ThreadNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// Registers, looks up and releases in blocks, so that the clock is read rarely; medians of blocks.
void BM_table(benchmark::State& state) {
  constexpr std::size_t kBlock = 1000;
  Ring ring(Decision::kKeep);
  std::vector<Slot> fresh(kBlock), again(kBlock);
  std::vector<double> registered, looked_up, released, sums;
  for (auto _ : state) {
    for (std::size_t i = 0; i < kBlock; ++i) ring.Oldest() = Slot();
    const double begin = ThreadNanoseconds();
    for (std::size_t i = 0; i < kBlock; ++i) fresh[i] = ring.Register();
    const double packed = ThreadNanoseconds();
    for (std::size_t i = 0; i < kBlock; ++i) again[i] = ring.Lookup(i);
    const double found = ThreadNanoseconds();
    for (std::size_t i = 0; i < kBlock; ++i) fresh[i] = Slot();
    const double shared = ThreadNanoseconds();
    for (std::size_t i = 0; i < kBlock; ++i) again[i] = Slot();
    const double gone = ThreadNanoseconds();
    registered.push_back((packed - begin) / kBlock);
    looked_up.push_back((found - packed) / kBlock);
    released.push_back((gone - shared) / kBlock);
    sums.push_back(registered.back() + looked_up.back() + released.back());
    for (std::size_t i = 0; i < kBlock; ++i) ring.Oldest() = ring.Register();
    ring.NextRegion();
  }
  state.counters["register_ns"] = Median(registered);
  state.counters["lookup_ns"] = Median(looked_up);
  state.counters["release_ns"] = Median(released);
  state.counters["sum_ns"] = Median(sums);
  state.counters["best_ns"] = *std::min_element(sums.begin(), sums.end());
  state.counters["bar_ns"] = 100;
}

// Register, move out, come back, release.
void BM_swap_path(benchmark::State& state) {
  constexpr std::size_t kBlock = 1000;
  Ring ring(Decision::kSwap);
  std::vector<Slot> fresh(kBlock);
  for (auto _ : state) {
    for (std::size_t i = 0; i < kBlock; ++i) fresh[i] = ring.Register();
    for (std::size_t i = kBlock; i-- > 0;) {
      benchmark::DoNotOptimize(fresh[i].Unpack());
      fresh[i] = Slot();
    }
    ring.NextRegion();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kBlock));
  state.counters["ns_per_tensor"] = benchmark::Counter(
      static_cast<double>(kBlock) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

struct Chain {
  Chain(int layers, double copy_s, double window, std::size_t unit = kUnit) {
    FakeOptions fake;
    fake.out_bytes_per_s = fake.in_bytes_per_s = static_cast<double>(unit) / copy_s;
    device = std::make_shared<FakeDevice>(fake);
    Options options;
    options.window = Bytes(static_cast<std::int64_t>(window * static_cast<double>(unit)));
    options.min_bytes = Bytes(0);
    options.keep_last_region = false;
    engine = std::make_unique<Engine>(device, options);
    program = std::make_unique<Program>(device, *engine, EqualLayers(layers, unit, 1, 1));
  }
  void Check() const {
    Require(program->wrong() == 0, "every byte comes back");
    Require(device->errors().empty(), "no access is out of order");
  }
  std::shared_ptr<FakeDevice> device;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Program> program;
};

double ResidentMegabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void BM_steady_state(benchmark::State& state) {
  double ratio = 0;
  std::int64_t allocations = 0, growth = 0;
  double megabytes = 0;
  for (auto _ : state) {
    Chain chain(24, 0.5, 2, 70001);  // an odd size
    for (int step = 0; step < 2; ++step) chain.program->Step();
    chain.program->Forward();
    const Stats peak = chain.engine->stats();
    ratio =
        static_cast<double>(peak.host_reserved_bytes) / static_cast<double>(peak.host_used_bytes);
    chain.program->Backward();
    chain.engine->ResetStats();
    const std::int64_t reserved = chain.engine->stats().host_reserved_bytes;
    const double before = ResidentMegabytes();
    for (int step = 0; step < 1000; ++step) {
      chain.program->Step();
      chain.device->ClearSpans();
    }
    chain.Check();
    allocations = chain.engine->stats().host_allocations;
    growth = chain.engine->stats().host_reserved_bytes - reserved;
    megabytes = ResidentMegabytes() - before;
  }
  state.counters["host_allocations"] = static_cast<double>(allocations);
  state.counters["host_growth_bytes"] = static_cast<double>(growth);
  state.counters["resident_growth_MB"] = megabytes;
  state.counters["reserved_over_used"] = ratio;
}

// Arguments: seconds of a copy in hundredths of a layer's compute, window in units.
void BM_makespan(benchmark::State& state) {
  const double copy_s = static_cast<double>(state.range(0)) / 100;
  const int layers = 24;
  StepTimes times;
  for (auto _ : state) {
    Chain chain(layers, copy_s, static_cast<double>(state.range(1)));
    chain.program->Step(true);
    times = chain.program->Step(true);
    chain.Check();
  }
  const double bound = std::max<double>(layers, layers * copy_s) + std::min(1.0, copy_s);
  state.counters["forward_ratio"] = times.forward_s / bound;
  state.counters["backward_ratio"] = times.backward_s / bound;
  state.counters["bar"] = 1.03;
}

// Before anything is timed: a swapped step gives every byte back, through every way of moving.
void CheckAnswers() {
  for (const double copy_s : {0.1, 1.0, 3.0}) {
    Chain chain(12, copy_s, 2);
    for (int step = 0; step < 3; ++step) chain.program->Step();
    chain.Check();
    Require(chain.engine->stats().bytes_in > 0, "something was moved");
    chain.engine->Drain();
    Require(chain.engine->stats().units == 0, "nothing is left");
  }
  std::fprintf(stderr, "answers checked: bytes, order of accesses, leftovers\n");
}

BENCHMARK(BM_table)->Name("table")->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_swap_path)->Name("swap_path")->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_steady_state)->Name("steady_state")->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(BM_makespan)
    ->Name("makespan")
    ->ArgsProduct({{25, 50, 100, 200, 400}, {2, 3}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

}  // namespace
}  // namespace restow::swap

// core_bench [FILE]: the figures also as JSON in FILE.
int main(int argc, char** argv) {
  std::vector<std::string> words = {argv[0], "--benchmark_counters_tabular=true"};
  if (argc > 1) {
    words.push_back(std::string("--benchmark_out=") + argv[1]);
    words.push_back("--benchmark_out_format=json");
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  restow::swap::CheckAnswers();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
