// Random programs: sizes, lifetimes, orders, failures, cancels, budgets, tiers, groups, streams.
// After each: every byte that came back was right, no access was out of order, nothing is left.
//
// CI runs 500 programs on a seed that is printed. All 10,000:
//   RESTOW_PROGRAMS=10000 RESTOW_SEED=1 restow_swap_test --gtest_filter='RandomPrograms.*'
#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "restow/base/error.h"
#include "restow/swap/engine.h"
#include "swap/fake/fake_device.h"
#include "swap/fake/fake_tier.h"
#include "swap/testing/environment.h"
#include "swap/testing/program.h"

namespace restow::swap {
namespace {

class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed) : random_(seed) {
    FakeOptions fake;
    fake.out_bytes_per_s = Pick({2e3, 1e4, 1e5});
    fake.in_bytes_per_s = Pick({2e3, 1e4, 1e5});
    fake.launch_s = Pick({0, 1e-3, 0.1});
    fake.capabilities.copy_streams = static_cast<int>(Pick({2, 2, 2, 1, 0}));
    fake.capabilities.timed_events = Chance(50);
    fake.capabilities.copies_on_device = Chance(80);
    fake.capabilities.pinned_memory = Chance(80);
    fake.frees_in_order = Chance(75);
    fake.watches = Chance(70);
    if (Chance(20)) fake.capacity = 40000;
    if (Chance(20)) fake.pin_limit = 20000;
    if (Chance(10)) fake.host_limit = 30000;
    Options options;
    if (Chance(50)) {
      // A tier needs the host to see memory for the direct way; both ways are run.
      fake.capabilities.host_addressable = Chance(50);
    }
    device_ = std::make_shared<FakeDevice>(fake);
    if (Chance(50)) {
      tier_ = std::make_shared<FakeTier>(device_);
      tier_->SetPolls(static_cast<int>(Pick({0, 1, 3})));
      if (Chance(30)) tier_->byte_cap = 20000;
      options.tier = tier_;
    }
    options.window = Bytes(static_cast<std::int64_t>(Pick({0, 3000, 10000, 100000})));
    if (Chance(40)) options.host_cap = Bytes(static_cast<std::int64_t>(Pick({0, 8192, 70000})));
    options.when_full = static_cast<WhenFull>(random_() % 3);
    options.pin_failure = Chance(50) ? PinFailure::kKeep : PinFailure::kPageable;
    options.min_bytes = Bytes(static_cast<std::int64_t>(Pick({0, 500})));
    options.fused_bytes = Bytes(1500);
    options.keep_last_region = Chance(50);
    options.keep_after_use = Chance(70);
    options.prefetch_distance = static_cast<int>(Pick({0, 1, 3}));
    options.recorded = 64;
    engine_ = std::make_unique<Engine>(device_, options);
    if (Chance(30)) other_ = device_->NewStream("other");
    first_ = device_->CurrentStream();
  }

  // What went wrong, or nothing.
  std::string Run() {
    if (Chance(40)) StartFailures();
    for (int action = 0; action < 60; ++action) Act();
    device_->FailWhen(nullptr);
    if (tier_) tier_->FailWhen(nullptr);
    CheckAll();
    region_ = Region();
    while (!saved_.empty()) {
      if (Chance(50)) Use(saved_.back());
      saved_.pop_back();
    }
    Leftovers();
    for (const std::string& error : device_->errors()) Say(error);
    if (tier_) {
      for (const std::string& error : tier_->errors()) Say(error);
    }
    return wrong_;
  }

 private:
  struct Saved {
    Slot slot;
    std::uint64_t pattern = 0;
    std::size_t bytes = 0, skip = 0;
    Storage held;  // sometimes the program keeps the storage alive itself
    std::weak_ptr<DeviceMemory> original;
  };

  bool Chance(int percent) { return static_cast<int>(random_() % 100) < percent; }
  double Pick(std::initializer_list<double> values) {
    return values.begin()[random_() % values.size()];
  }
  void Say(const std::string& text) { wrong_ += text + "\n"; }

  void StartFailures() {
    const std::uint64_t rate = 5 + random_() % 40;
    device_->FailWhen([this, rate](Call call) {
      // Memory that cannot be synchronised is abandoned for good; that is another test.
      return call != Call::kSynchronize && random_() % rate == 0;
    });
    if (tier_) tier_->FailWhen([this, rate](TierCall) { return random_() % rate == 0; });
  }

  void Act() {
    const auto dice = static_cast<int>(random_() % 100);
    if (dice < 12) {
      OpenRegion();
    } else if (dice < 47) {
      Save();
    } else if (dice < 72) {
      if (!saved_.empty()) Use(saved_[Place()]);
    } else if (dice < 84) {
      if (!saved_.empty()) saved_.erase(saved_.begin() + static_cast<std::ptrdiff_t>(Place()));
    } else if (dice < 88) {
      device_->AdvanceHost(Pick({0.1, 1, 10}));
    } else if (dice < 90) {
      engine_->Step();
    } else if (dice < 93 && other_.id != 0) {
      SwitchStream();
    } else if (dice < 99) {
      Steer();
    } else {
      engine_->Drain();
    }
  }

  // Backward runs in reverse more often than not.
  std::size_t Place() {
    return Chance(60) ? saved_.size() - 1 : static_cast<std::size_t>(random_() % saved_.size());
  }

  void OpenRegion() {
    RegionOptions options;
    options.site = "site" + std::to_string(random_() % 4);
    options.fuse = Chance(40);
    if (Chance(30)) options.group = "g" + std::to_string(random_() % 2);
    if (!options.group.empty() && Chance(60)) options.steering = Steering::kManual;
    if (tier_ && Chance(40)) options.place = Place::kFile;
    region_ = engine_->Begin(options);
    open_ = true;
  }

  void Save() {
    if (!open_) OpenRegion();
    Saved saved;
    try {
      if (!saved_.empty() && Chance(20) && saved_.back().held.memory) {
        saved.held = saved_.back().held;  // another view of a storage that is alive
        saved.pattern = saved_.back().pattern;
        saved.bytes = saved_.back().bytes;
        saved.skip = saved_.back().skip;
        saved.original = saved.held.memory;
      } else {
        Make(saved);
      }
    } catch (const FakeFailure&) {
      return;  // the program itself found no memory
    }
    const auto decision = static_cast<Decision>(Pick({0, 0, 0, 1, 2}));
    saved.slot = region_.Pack(saved.held, decision);
    if (Chance(70)) saved.held.memory.reset();
    saved_.push_back(std::move(saved));
  }

  void Make(Saved& saved) {
    saved.pattern = ++patterns_;
    const auto size = static_cast<std::size_t>(Pick({0, 64, 300, 1000, 3000, 9000}));
    saved.held = NewStorage(*device_, size, saved.pattern, "s" + std::to_string(patterns_),
                            Pick({0, 0.1, 1}));
    saved.bytes = size;
    saved.original = saved.held.memory;
    if (size >= 300 && Chance(15)) {
      saved.skip = saved.held.offset = 100;
      saved.bytes = saved.held.bytes = 150;
    }
    if (Chance(10)) saved.held.identity = 0;
  }

  void Use(Saved& saved) {
    if (!saved.slot) return;
    try {
      const Slot::Unpacked got = saved.slot.Unpack();
      if (!device_->Holds(*got.memory, got.offset, saved.bytes, saved.pattern, saved.skip)) {
        Say("wrong bytes came back for pattern " + std::to_string(saved.pattern));
      }
      // Memory the engine never moved is the program's own, on whatever stream it uses it.
      if (saved.original.lock() == got.memory) {
        device_->NoteUse(*got.memory, device_->CurrentStream());
      }
      device_->Compute("use", Pick({0, 0.1, 1}), {}, {});
      // A device without a stream order frees at once: the program keeps what it uses.
      if (!device_->options().frees_in_order) device_->WaitAll();
    } catch (const FakeFailure&) {
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) Say(error.what());
    }
  }

  // With failures off, every slot gives its bytes, unless memory is too small for it right now.
  void CheckAll() {
    for (Saved& saved : saved_) {
      if (Chance(50)) Use(saved);
    }
  }

  void SwitchStream() {
    // As a framework does: the stream entered waits for the one left.
    const Stream next = device_->CurrentStream() == first_ ? other_ : first_;
    try {
      const auto event = device_->NewEvent();
      device_->Record(*event, device_->CurrentStream());
      device_->StreamWait(next, *event);
      device_->SetCurrentStream(next);
    } catch (const FakeFailure&) {
    }
  }

  void Steer() {
    const std::string group = "g" + std::to_string(random_() % 2);
    try {
      switch (random_() % 4) {
        case 0:
          return engine_->LaunchOffload(group);
        case 1:
          return engine_->WaitOffload(group);
        case 2:
          return engine_->LaunchLoad(group);
        default:
          return engine_->WaitLoad(group);
      }
    } catch (const FakeFailure&) {
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) Say(error.what());
    }
  }

  void Leftovers() {
    device_->WaitAll();
    engine_->Drain();
    const Stats stats = engine_->stats();
    if (stats.units != 0 || stats.slots != 0) Say("units or slots are left");
    if (stats.host_used_bytes != 0) Say("host bytes are left");
    if (stats.leaving_bytes != 0 || stats.brought_bytes != 0 || stats.swapped_bytes != 0) {
      Say("a counter of bytes is not zero");
    }
    if (stats.abandoned_bytes != 0) Say("host memory was abandoned");
    if (device_->allocated_bytes() != 0) Say("device memory is left");
    if (tier_ && tier_->bytes() != 0) Say("bytes are left in the tier");
    if (tier_ && tier_->open_tickets() != 0) Say("tickets are left open");
    const std::int64_t cap = static_cast<std::int64_t>(device_->options().host_limit);
    if (cap > 0 && stats.host_reserved_bytes > cap) Say("more host memory than there is");
    engine_.reset();
    if (device_->host_bytes() != 0) Say("host memory outlives the engine");
  }

  std::mt19937_64 random_;
  std::shared_ptr<FakeDevice> device_;
  std::shared_ptr<FakeTier> tier_;
  std::unique_ptr<Engine> engine_;
  Region region_;
  bool open_ = false;
  std::vector<Saved> saved_;
  Stream first_, other_;
  std::uint64_t patterns_ = 0;
  std::string wrong_;
};

TEST(RandomPrograms, LoseNothingLeakNothingAndNeverHang) {
  const std::uint64_t seed = FromEnvironment("RESTOW_SEED", 20261130);
  const std::uint64_t programs = FromEnvironment("RESTOW_PROGRAMS", 500);
  std::cout << "seed " << seed << ", " << programs << " programs\n";
  int failed = 0;
  for (std::uint64_t i = 0; i < programs && failed < 5; ++i) {
    const std::string wrong = RandomProgram(seed + i).Run();
    if (wrong.empty()) continue;
    ++failed;
    ADD_FAILURE() << "RESTOW_SEED=" << seed + i << " RESTOW_PROGRAMS=1:\n" << wrong;
  }
}

}  // namespace
}  // namespace restow::swap
