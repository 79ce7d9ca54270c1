// Schedules, drawn: what ran when on the fake device. One column is one second; a layer's letter
// stands for its forward or backward on the compute stream, and for its copies on the others.
#include "swap/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "restow/base/error.h"
#include "restow/swap/engine.h"
#include "swap/fake/fake_device.h"
#include "swap/testing/chain.h"
#include "swap/testing/program.h"

namespace restow::swap {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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

}  // namespace
}  // namespace restow::swap
