// What a slot promises, and the states of a unit between device and host.
#include "restow/swap/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "restow/base/error.h"
#include "swap/testing/engine_fixture.h"
#include "swap/testing/program.h"

namespace restow::swap {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(EngineTest, AStorageGoesOutIsGivenUpComesBackAndIsFreed) {
  {
    Region region = Begin();
    const Slot slot = Pack(region, 7);
    EXPECT_EQ(slot.reason(), Reason::kSwapped);
    EXPECT_EQ(device->allocated_bytes(), kMB) << "held until its copy is done";
    Finish();
    EXPECT_EQ(device->allocated_bytes(), 0u) << "given up by dropping the last reference";
    EXPECT_EQ(engine->stats().swapped_bytes, static_cast<std::int64_t>(kMB));
    EXPECT_TRUE(Good(slot, 7));
    EXPECT_THAT(Changes(), ElementsAre("Resident>Offloading", "Offloading>OnHost",
                                       "OnHost>Prefetching", "Prefetching>Resident"));
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, UsedBeforeItsCopyFinishedTheLiveMemoryIsReturned) {
  {
    Region region = Begin();
    const Slot slot = Pack(region, 7);
    EXPECT_TRUE(Good(slot, 7));
    EXPECT_THAT(Changes(), ElementsAre("Resident>Offloading", "Offloading>Resident"));
    EXPECT_EQ(engine->stats().bytes_in, 0);
    EXPECT_EQ(engine->stats().cancelled, 1);
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, ACancelledUnitThatDiesKeepsItsMemoryUntilTheCopyIsOver) {
  {
    Region region = Begin();
    const Slot slot = Pack(region, 7);
    EXPECT_TRUE(Good(slot, 7));
  }
  EXPECT_EQ(device->allocated_bytes(), kMB) << "the copy still reads it";
  ExpectNothingLeft();
}

TEST_F(EngineTest, UnpackMayComeManyTimesInAnyOrder) {
  {
    Region region = Begin();
    std::vector<Slot> slots;
    for (std::uint64_t i = 0; i < 6; ++i) slots.push_back(Pack(region, i));
    Finish();
    for (const std::uint64_t i : {2u, 5u, 2u, 0u, 4u, 0u, 1u, 3u, 5u, 5u}) {
      EXPECT_TRUE(Good(slots[i], i)) << i;
    }
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, UnpackMayNeverCome) {
  for (int round = 0; round < 3; ++round) {
    Region region = Begin();
    std::vector<Slot> slots;
    for (std::uint64_t i = 0; i < 4; ++i) slots.push_back(Pack(region, i));
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, AfterABackwardWithAKeptGraphTheSecondOneFindsTheSameBytes) {
  {
    Region region = Begin();
    std::vector<Slot> slots;
    for (std::uint64_t i = 0; i < 5; ++i) slots.push_back(Pack(region, i));
    Finish();
    for (int backward = 0; backward < 3; ++backward) {
      for (std::uint64_t i = 5; i-- > 0;) EXPECT_TRUE(Good(slots[i], i));
    }
    EXPECT_EQ(engine->stats().bytes_in, static_cast<std::int64_t>(5 * kMB)) << "came back once";
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, WithoutKeepAfterUseAUnitIsGivenUpAgainAndCopiedBackAgain) {
  options.keep_after_use = false;
  options.prefetch_distance = options.max_prefetch_distance = 0;
  Make();
  {
    Region region = Begin();
    const Slot a = Pack(region, 1), b = Pack(region, 2);
    Finish();
    EXPECT_TRUE(Good(b, 2));
    EXPECT_TRUE(Good(a, 1));
    EXPECT_EQ(device->allocated_bytes(), kMB) << "b went when a was used";
    EXPECT_TRUE(Good(b, 2));
    EXPECT_EQ(engine->stats().bytes_in, static_cast<std::int64_t>(3 * kMB));
    EXPECT_EQ(engine->stats().bytes_out, static_cast<std::int64_t>(2 * kMB)) << "copied out once";
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, ACopyBackAskedForOnAnotherStreamIsBehindTheCopyOut) {
  options.window = Bytes(0);
  Make();
  options.window = Bytes(0);
  engine = std::make_unique<Engine>(device, options);
  {
    Region region = Begin();
    // With no window a's memory goes as soon as b is packed: the stream waits, the host does not.
    const Slot a = Pack(region, 1), b = Pack(region, 2);
    EXPECT_EQ(device->allocated_bytes(), kMB);
    // Another stream, which waited for nothing, uses a at once: nothing but a's own event says
    // that its copy out is over.
    const Stream first = device->CurrentStream();
    device->SetCurrentStream(device->NewStream("other"));
    EXPECT_TRUE(Good(a, 1));
    device->SetCurrentStream(first);
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, AMoveThatTheTableDoesNotKnowNeverHappens) {
  // Each change recorded in this file's long programs is a row of the table.
  Program program(device, *engine, EqualLayers(8, kMB, 1, 1));
  for (int step = 0; step < 4; ++step) program.Step();
  for (const Transition& t : engine->Recorded()) EXPECT_EQ(Next(t.from, t.change), t.to);
  EXPECT_EQ(program.wrong(), 0);
  ExpectNothingLeft();
}

TEST_F(EngineTest, UnpackOnAnotherStreamWaitsThereToo) {
  {
    Region region = Begin();
    const Slot slot = Pack(region, 7);
    Finish();
    const Stream first = device->CurrentStream();
    const Stream other = device->NewStream("other");
    EXPECT_TRUE(Good(slot, 7));
    device->SetCurrentStream(other);
    EXPECT_TRUE(Good(slot, 7));
    device->SetCurrentStream(first);
    EXPECT_TRUE(Good(slot, 7));
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, SlotsAndRegionsOutliveTheEngine) {
  Slot slot;
  {
    Region region = Begin();
    slot = Pack(region, 7);
    engine.reset();
  }
  device->WaitAll();
  EXPECT_TRUE(Good(slot, 7));
  slot = Slot();
  EXPECT_EQ(device->allocated_bytes(), 0u);
}

TEST_F(EngineTest, WithOneCopyStreamOrNoneTheBytesAreTheSame) {
  for (const int streams : {1, 0}) {
    FakeOptions fake;
    fake.capabilities.copy_streams = streams;
    Make(fake);
    Program program(device, *engine, EqualLayers(6, kMB, 1, 1));
    for (int step = 0; step < 3; ++step) program.Step();
    EXPECT_EQ(program.wrong(), 0);
    EXPECT_THAT(device->errors(), IsEmpty());
    ExpectNothingLeft();
  }
}

TEST_F(EngineTest, MemoryThatIsNotFreedInStreamOrderIsWaitedFor) {
  FakeOptions fake;
  fake.frees_in_order = false;
  Make(fake);
  Program program(device, *engine, EqualLayers(6, kMB, 1, 1));
  for (int step = 0; step < 3; ++step) program.Step();
  EXPECT_EQ(program.wrong(), 0);
  EXPECT_GT(engine->stats().host_waits, 0);
  ExpectNothingLeft();
}

TEST_F(EngineTest, InStreamOrderTheHostNeverWaits) {
  Program program(device, *engine, EqualLayers(12, kMB, 1, 1));
  program.Step();
  const std::uint64_t before = device->host_waits_that_waited();
  for (int step = 0; step < 4; ++step) program.Step();
  EXPECT_EQ(device->host_waits_that_waited(), before);
  EXPECT_EQ(engine->stats().host_waits, 0);
  ExpectNothingLeft();
}

TEST_F(EngineTest, ManyStepsAllocateNothingAfterTheFirst) {
  Program program(device, *engine, EqualLayers(12, kMB, 1, 1));
  program.Step();
  engine->ResetStats();
  const std::uint64_t events = device->calls(Call::kNewEvent);
  for (int step = 0; step < 50; ++step) program.Step();
  EXPECT_EQ(engine->stats().host_allocations, 0);
  EXPECT_LE(device->calls(Call::kNewEvent), events + 12) << "events are reused";
  ExpectNothingLeft();
}

TEST_F(EngineTest, TheLockIsNotHeldInAnyCallOfTheDevice) {
  // The fake reports a held lock at each call; here it calls the engine back as well, which
  // would never return under the lock.
  std::uint64_t called = 0;
  device->OnCall([&](Call) {
    ++called;
    engine->stats();
  });
  Program program(device, *engine, EqualLayers(6, kMB, 1, 1));
  for (int step = 0; step < 3; ++step) program.Step();
  EXPECT_GT(called, 100u);
  device->OnCall(nullptr);
  ExpectNothingLeft();
}

TEST_F(EngineTest, TheLockIsNotHeldWhereTheUserIsCalled) {
  options.on_trouble = [&](const std::string& text) {
    EXPECT_THAT(text, HasSubstr("CopyOut"));
    EXPECT_THAT(text, HasSubstr("transitions"));
    engine->stats();
  };
  Make();
  {
    Region region = Begin();
    device->FailNth(Call::kCopyOut, 1);
    EXPECT_EQ(Pack(region, 1).reason(), Reason::kKeptDeviceError);
  }
  EXPECT_EQ(engine->stats().device_errors, 1);
  ExpectNothingLeft();
}

TEST_F(EngineTest, ARegionWithoutATierOrAGroupIsRefused) {
  RegionOptions region;
  region.site = "x";
  region.place = Place::kFile;
  EXPECT_THROW(engine->Begin(region), Error);
  region.place = Place::kHost;
  region.steering = Steering::kManual;
  EXPECT_THROW(engine->Begin(region), Error);
}

}  // namespace
}  // namespace restow::swap
