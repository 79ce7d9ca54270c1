// Schedules, drawn: what ran when on the fake device. One column is one second; a layer's letter
// stands for its forward or backward on the compute stream, and for its copies on the others.
#include "swap/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "restow/base/error.h"
#include "restow/swap/engine.h"
#include "swap/fake/fake_device.h"
#include "swap/testing/program.h"

namespace restow::swap {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::size_t kUnit = 6400;  // bytes copied in a second

struct Chain {
  explicit Chain(std::vector<Layer> layers, double window_units = 2, bool keep_last = false,
                 std::size_t bytes_per_s = kUnit, int most_ahead = 64) {
    FakeOptions fake;
    fake.out_bytes_per_s = fake.in_bytes_per_s = static_cast<double>(bytes_per_s);
    device = std::make_shared<FakeDevice>(fake);
    options.window = Bytes(static_cast<std::int64_t>(window_units * kUnit));
    options.min_bytes = Bytes(0);
    options.keep_last_region = keep_last;
    options.prefetch_distance = std::min(1, most_ahead);
    options.max_prefetch_distance = most_ahead;
    engine = std::make_unique<Engine>(device, options);
    program = std::make_unique<Program>(device, *engine, std::move(layers));
  }
  ~Chain() {
    EXPECT_THAT(device->errors(), IsEmpty());
    EXPECT_EQ(program->wrong(), 0);
  }
  // The drawing of the n-th step, from 1.
  std::string DrawStep(int n, bool apart = false) {
    for (int i = 1; i < n; ++i) program->Step(apart);
    device->ClearSpans();
    program->Step(apart);
    return "\n" + device->Draw(1);
  }

  std::shared_ptr<FakeDevice> device;
  Options options;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Program> program;
};

TEST(Drawing, CopiesOutRunBesideTheNextForwardAndCopiesInBesideTheBackwardBefore) {
  // Window two units. d and c are still on the device when backward begins: both are cancelled.
  Chain chain(EqualLayers(4, kUnit, 1, 1));
  EXPECT_EQ(chain.DrawStep(1),
            "\n"
            "compute |abcddcba\n"
            "out     |.abcd\n"
            "in      |.....ba\n");
}

TEST(Drawing, TheSecondStepIsAsTheFirst) {
  Chain chain(EqualLayers(4, kUnit, 1, 1));
  const std::string first = chain.DrawStep(1);
  EXPECT_EQ(chain.DrawStep(3), first);
}

TEST(Drawing, TheLastRegionIsKeptOnceItIsKnown) {
  Chain chain(EqualLayers(4, kUnit, 1, 1), 2, true);
  EXPECT_EQ(chain.DrawStep(1),
            "\n"
            "compute |abcddcba\n"
            "out     |.abcd\n"
            "in      |.....ba\n");
  EXPECT_EQ(chain.DrawStep(1),
            "\n"
            "compute |abcddcba\n"
            "out     |.abc\n"
            "in      |......a\n")
      << "the window holds c and b when backward begins";
  EXPECT_EQ(chain.engine->stats().kept_last_region, 1);
}

TEST(Drawing, ASlowLinkHoldsComputeBackOnlyWhenTheWindowIsFull) {
  // Copies take two seconds. When d was packed, b, c and d are on their way out and the window is
  // two: compute waits for b's copy, which ends at 5. Backward begins when all is out (the host
  // waits); e and d are still held, c to a come back without a gap on the link.
  Chain chain(EqualLayers(5, kUnit, 1, 1), 2, false, kUnit / 2);
  EXPECT_EQ(chain.DrawStep(1, true),
            "\n"
            "compute |abcd.e.....ed.c.b.a\n"
            "out     |.aabbccddee\n"
            "in      |............ccbbaa\n");
}

TEST(Drawing, WithoutAnOrderTheUseAsksAndTheStallIsCounted) {
  Chain chain(EqualLayers(3, kUnit, 1, 1), 2, false, kUnit, 0);
  Program& program = *chain.program;
  program.Forward();
  chain.device->WaitAll();
  chain.engine->Drain();
  chain.device->ClearSpans();
  program.Backward();
  chain.device->WaitAll();
  chain.engine->Drain();
  EXPECT_EQ("\n" + chain.device->Draw(1),
            "\n"
            "compute |.c.b.a\n"
            "out     |\n"
            "in      |c.b.a\n");
  EXPECT_EQ(chain.engine->stats().demand_loads, 3);
  EXPECT_EQ(chain.engine->stats().stalls, 3);
  EXPECT_DOUBLE_EQ(chain.engine->stats().stall_s, 3.0);
}

// --- The schedule by itself ---

TEST(Schedule, LearnsTheOrderOfUsesAndLooksAhead) {
  Schedule schedule;
  Schedule::Site& site = schedule.SiteOf("layer");
  Invocation& run = schedule.NextInvocation(site);
  std::vector<NameId> names;
  for (std::uint32_t i = 0; i < 4; ++i) names.push_back(schedule.NameOf(site, run, i));
  EXPECT_FALSE(schedule.Knows()) << "nothing was learnt yet";
  for (const int i : {2, 0, 3, 1}) schedule.Used(names[static_cast<std::size_t>(i)]);
  schedule.Step();
  schedule.Used(names[2]);
  EXPECT_TRUE(schedule.Knows());
  EXPECT_EQ(schedule.Ahead(1), names[0]);
  EXPECT_EQ(schedule.Ahead(3), names[1]);
  EXPECT_EQ(schedule.Ahead(4), kNoName);
}

TEST(Schedule, AUnitUsedTwiceAStepIsFoundAtItsSecondUse) {
  Schedule schedule;
  Schedule::Site& site = schedule.SiteOf("layer");
  Invocation& run = schedule.NextInvocation(site);
  const NameId a = schedule.NameOf(site, run, 0), b = schedule.NameOf(site, run, 1);
  const NameId c = schedule.NameOf(site, run, 2);
  for (const NameId name : {a, b, a, c}) schedule.Used(name);
  schedule.Step();
  schedule.Used(a);
  EXPECT_EQ(schedule.Ahead(1), b);
  schedule.Used(b);
  schedule.Used(a);
  EXPECT_EQ(schedule.Ahead(1), c);
}

TEST(Schedule, MicroBatchesHaveNamesOfTheirOwn) {
  Schedule schedule;
  Schedule::Site& site = schedule.SiteOf("layer");
  Invocation& first = schedule.NextInvocation(site);
  Invocation& second = schedule.NextInvocation(site);
  EXPECT_NE(schedule.NameOf(site, first, 0), schedule.NameOf(site, second, 0));
  schedule.Step();
  EXPECT_EQ(&schedule.NextInvocation(site), &first) << "the same in every step";
}

TEST(Schedule, AnOrderCanBeGiven) {
  Schedule schedule;
  schedule.Give({{"b", 0, 0}, {"a", 0, 1}, {"a", 0, 0}});
  Schedule::Site& a = schedule.SiteOf("a");
  Invocation& run = schedule.NextInvocation(a);
  schedule.Used(schedule.NameOf(a, run, 1));
  EXPECT_EQ(schedule.Ahead(1), schedule.NameOf(a, run, 0));
}

// Micro-batches that do not come back in reverse: forward 0 1 2, backward 0 1 2.
TEST(Schedule, AnOrderThatIsNotTheReverseIsLearntInOneStep) {
  FakeOptions fake;
  fake.out_bytes_per_s = fake.in_bytes_per_s = kUnit;
  const auto device = std::make_shared<FakeDevice>(fake);
  Options options;
  options.window = Bytes(2 * kUnit);
  options.min_bytes = Bytes(0);
  options.keep_last_region = false;
  Engine engine(device, options);
  std::vector<std::int64_t> demanded;
  for (int step = 0; step < 3; ++step) {
    engine.ResetStats();
    std::vector<Slot> slots;
    for (std::uint64_t i = 0; i < 6; ++i) {
      RegionOptions where;
      where.site = "layer";
      Region region = engine.Begin(where);
      slots.push_back(region.Pack(NewStorage(*device, kUnit, i, std::to_string(i), 1)));
    }
    device->WaitAll();
    engine.Drain();
    for (std::uint64_t i = 0; i < 6; ++i) {
      const Slot::Unpacked got = slots[i].Unpack();
      EXPECT_TRUE(device->Holds(*got.memory, got.offset, kUnit, i));
      device->Compute("x", 1, {got.memory.get()}, {});
      slots[i] = Slot();
    }
    device->WaitAll();
    engine.Drain();
    demanded.push_back(engine.stats().demand_loads);
  }
  EXPECT_THAT(demanded, ElementsAre(6, 1, 1)) << "only the first use has nobody before it";
  EXPECT_THAT(device->errors(), IsEmpty());
}

TEST(Schedule, TheDistanceGrowsWhereStallsAreSeen) {
  // Copies in take half a second each, uses a tenth, in bursts: one unit ahead is too little.
  std::vector<Layer> layers;
  for (int i = 0; i < 16; ++i) {
    const std::string label(1, static_cast<char>('a' + i));
    layers.push_back({label, {kUnit / 2}, 1, i % 4 == 3 ? 2.0 : 0.1});
  }
  Chain chain(layers, 2);  // four units
  EXPECT_EQ(chain.engine->stats().prefetch_distance, 1);
  std::vector<double> times;
  for (int step = 0; step < 6; ++step) {
    times.push_back(chain.program->Step(true).backward_s);
    chain.engine->Drain();
  }
  EXPECT_GT(chain.engine->stats().prefetch_distance, 1);
  EXPECT_LT(times.back(), times.front());
}

// --- Groups ---

TEST(Group, IsLaunchedAndAwaitedByHand) {
  Chain chain(EqualLayers(1, kUnit, 1, 1));
  Engine& engine = *chain.engine;
  RegionOptions where;
  where.site = "stage";
  where.group = "stage0";
  where.steering = Steering::kManual;
  std::vector<Slot> slots;
  {
    Region region = engine.Begin(where);
    for (std::uint64_t i = 0; i < 3; ++i) {
      slots.push_back(region.Pack(NewStorage(*chain.device, kUnit, i, std::to_string(i), 1)));
      EXPECT_EQ(slots.back().reason(), Reason::kWaitsForLaunch);
    }
  }
  EXPECT_EQ(engine.stats().bytes_out, 0);
  engine.LaunchOffload("stage0");
  EXPECT_EQ(chain.device->allocated_bytes(), 3 * kUnit);
  engine.WaitOffload("stage0");
  EXPECT_EQ(chain.device->allocated_bytes(), 0u);
  chain.device->Compute("x", 2, {}, {});
  engine.LaunchLoad("stage0");
  chain.device->Compute("y", 1, {}, {});
  engine.WaitLoad("stage0");
  for (std::uint64_t i = 3; i-- > 0;) {
    const Slot::Unpacked got = slots[i].Unpack();
    EXPECT_TRUE(chain.device->Holds(*got.memory, got.offset, kUnit, i));
    chain.device->Compute(std::to_string(i), 1, {got.memory.get()}, {});
  }
  EXPECT_EQ("\n" + chain.device->Draw(1),
            "\n"
            "compute |012...xxy..210\n"
            "out     |...012\n"
            "in      |........012\n");
}

TEST(Group, AWaitWithoutALaunchAndAnUnknownNameAreErrorsThatSaySo) {
  Chain chain(EqualLayers(1, kUnit, 1, 1));
  RegionOptions where;
  where.group = "stage0";
  Region region = chain.engine->Begin(where);
  const auto message = [](auto call) {
    try {
      call();
    } catch (const Error& error) {
      return error.message();
    }
    return std::string();
  };
  EXPECT_THAT(message([&] { chain.engine->WaitOffload("stage0"); }),
              HasSubstr("without launch_offload"));
  EXPECT_THAT(message([&] { chain.engine->WaitLoad("stage0"); }), HasSubstr("launch_load"));
  EXPECT_THAT(message([&] { chain.engine->LaunchLoad("stag0"); }),
              HasSubstr("did you mean 'stage0'"));
  chain.engine->LaunchOffload("stage0");
  chain.engine->WaitOffload("stage0");
  EXPECT_THAT(message([&] { chain.engine->WaitOffload("stage0"); }),
              HasSubstr("without launch_offload"));
  chain.engine->DropGroup("stage0");
  EXPECT_THAT(chain.engine->GroupNames(), IsEmpty());
}

TEST(Group, AnUnpackThatComesBeforeAnyLaunchStillWorks) {
  Chain chain(EqualLayers(1, kUnit, 1, 1));
  RegionOptions where;
  where.group = "g";
  where.steering = Steering::kManual;
  Region region = chain.engine->Begin(where);
  const Slot slot = region.Pack(NewStorage(*chain.device, kUnit, 5));
  const auto good = [&] {
    const Slot::Unpacked got = slot.Unpack();
    return chain.device->Holds(*got.memory, got.offset, kUnit, 5);
  };
  EXPECT_TRUE(good());
  chain.engine->LaunchOffload("g");
  EXPECT_TRUE(good());
  chain.engine->WaitOffload("g");
  EXPECT_TRUE(good());
}

// --- Makespan ---

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(Makespan, EqualUnitsHideWhateverIsShorter) {
  // Forward: the first copy waits for the first compute (fill), the last compute for nobody, its
  // copy drains after it. Backward the same mirrored: the first copy in comes before any compute
  // that needs it, the last compute after the last copy.
  for (const double copy_s : {0.25, 0.5, 1.0, 2.0, 4.0}) {
    for (const double window : {2.0, 3.0, 5.0}) {
      const int n = 24;
      Chain chain(EqualLayers(n, kUnit, 1, 1), window, false,
                  static_cast<std::size_t>(kUnit / copy_s));
      chain.program->Step(true);
      const StepTimes times = chain.program->Step(true);
      const double busy = std::max<double>(n, n * copy_s);
      const double ends = std::min(1.0, copy_s);  // fill of one side, drain of the other
      EXPECT_LE(times.forward_s, 1.03 * (busy + ends)) << copy_s << " " << window;
      EXPECT_LE(times.backward_s, 1.03 * (busy + ends)) << copy_s << " " << window;
    }
  }
}

// The shortest forward over every order in which the copies could leave, by brute force. Compute
// runs in order; unit i's copy may start when its compute is done; the device may hold a window of
// units that are not copied yet, and one always passes.
double BestForward(const std::vector<double>& compute, const std::vector<double>& copy,
                   double window) {
  const std::size_t n = compute.size();
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  double best = 1e30;
  do {
    // Fixed point: starts of computes depend on ends of copies and the reverse; both only grow.
    std::vector<double> computed(n, 0), copied(n, 0);
    bool changed = true;
    for (std::size_t round = 0; changed && round < 4 * n; ++round) {
      changed = false;
      double at = 0;
      for (std::size_t i = 0; i < n; ++i) {
        // Before compute i, what is packed and not copied must fit the window.
        double held_until = 0;
        std::vector<std::size_t> packed(i);
        std::iota(packed.begin(), packed.end(), 0u);
        std::sort(packed.begin(), packed.end(),
                  [&](std::size_t a, std::size_t b) { return copied[a] < copied[b]; });
        double held = 0;
        for (const std::size_t p : packed) held += copy[p];
        std::size_t left = packed.size();
        for (const std::size_t p : packed) {
          if (held <= window + 1e-9 || left <= 1) break;
          held -= copy[p];
          --left;
          held_until = copied[p];
        }
        at = std::max(at, held_until) + compute[i];
        changed |= at > computed[i] + 1e-9;
        computed[i] = at;
      }
      double link = 0;
      for (const std::size_t i : order) {
        link = std::max(link, computed[i]) + copy[i];
        changed |= link > copied[i] + 1e-9;
        copied[i] = link;
      }
    }
    if (changed) continue;  // this order never gets through
    const double end = std::max(computed.back(), *std::max_element(copied.begin(), copied.end()));
    best = std::min(best, end);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST(Makespan, UnequalUnitsComeWithinATwentiethOfTheBestOrder) {
  std::mt19937 random(20260101);
  double worst = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const int n = 3 + static_cast<int>(random() % 4);  // brute force: up to 720 orders
    std::vector<Layer> layers;
    std::vector<double> compute, copy;
    double largest = 0;
    for (int i = 0; i < n; ++i) {
      const std::size_t bytes = 640 * (1 + random() % 20);
      const double seconds = 0.25 * static_cast<double>(1 + random() % 8);
      layers.push_back({std::string(1, static_cast<char>('a' + i)), {bytes}, seconds, seconds});
      compute.push_back(seconds);
      copy.push_back(static_cast<double>(bytes) / kUnit);
      largest = std::max(largest, copy.back());
    }
    const double window = 2 * largest;
    Chain chain(layers, window);
    chain.program->Step(true);
    const StepTimes times = chain.program->Step(true);
    const double best = BestForward(compute, copy, window);
    EXPECT_GE(times.forward_s, Sum(compute) - 1e-9);
    EXPECT_LE(times.forward_s, 1.05 * best) << "trial " << trial << ", " << n << " units";
    worst = std::max(worst, times.forward_s / best);
  }
  RecordProperty("worst_ratio", std::to_string(worst));
}

}  // namespace
}  // namespace restow::swap
