// The engine on the fake device: what a slot promises, and every transition of a unit.
#include "restow/swap/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "restow/base/error.h"
#include "swap/fake/fake_device.h"
#include "swap/fake/fake_tier.h"
#include "swap/testing/program.h"

namespace restow::swap {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// One "megabyte" of these tests, small so that they are quick: copies run at one a second.
constexpr std::size_t kMB = 100000;
// What the pool reserves for it: whole multiples of 64 bytes.
constexpr std::int64_t kBlock = 100032;

class EngineTest : public testing::Test {
 protected:
  EngineTest() { Make(); }
  ~EngineTest() override {
    EXPECT_THAT(device->errors(), IsEmpty());
    if (tier) {
      EXPECT_THAT(tier->errors(), IsEmpty());
    }
  }

  void Make(FakeOptions fake = {}) {
    engine.reset();
    fake.out_bytes_per_s = fake.in_bytes_per_s = kMB;
    device = std::make_shared<FakeDevice>(fake);
    options.window = Bytes(2 * kMB);
    options.min_bytes = Bytes(0);
    options.keep_last_region = false;
    engine = std::make_unique<Engine>(device, options);
  }
  void MakeTier(bool host_addressable = false) {
    FakeOptions fake;
    fake.capabilities.host_addressable = host_addressable;
    Make(fake);
    tier = std::make_shared<FakeTier>(device);
    options.tier = tier;
    engine = std::make_unique<Engine>(device, options);
  }

  Region Begin(const std::string& site = "site") {
    RegionOptions region;
    region.site = site;
    return engine->Begin(region);
  }
  Region BeginFile() {
    RegionOptions region;
    region.site = "file";
    region.place = Place::kFile;
    return engine->Begin(region);
  }
  // Packs a fresh storage whose pattern is `seed`, and forgets the memory.
  Slot Pack(Region& region, std::uint64_t seed, std::size_t bytes = kMB,
            Decision decision = Decision::kAutomatic) {
    return region.Pack(NewStorage(*device, bytes, seed), decision);
  }
  bool Good(const Slot& slot, std::uint64_t seed, std::size_t bytes = kMB) {
    const Slot::Unpacked got = slot.Unpack();
    return device->Holds(*got.memory, got.offset, bytes, seed);
  }
  // The host lets all copies finish and the engine see it.
  void Finish() {
    device->WaitAll();
    engine->Drain();
  }
  // Changes recorded so far, as text.
  std::vector<std::string> Changes() {
    std::vector<std::string> changes;
    for (const Transition& t : engine->Recorded()) {
      changes.push_back(std::string(Name(t.from)) + ">" + Name(t.to));
    }
    return changes;
  }
  void ExpectNothingLeft() {
    Finish();
    const Stats stats = engine->stats();
    EXPECT_EQ(stats.units, 0);
    EXPECT_EQ(stats.slots, 0);
    EXPECT_EQ(stats.host_used_bytes, 0);
    EXPECT_EQ(stats.swapped_bytes, 0);
    EXPECT_EQ(stats.leaving_bytes, 0);
    EXPECT_EQ(stats.brought_bytes, 0);
    EXPECT_EQ(device->allocated_bytes(), 0u);
    if (tier) {
      EXPECT_EQ(tier->bytes(), 0u);
      EXPECT_EQ(tier->open_tickets(), 0u);
    }
  }

  Options options;
  std::shared_ptr<FakeDevice> device;
  std::shared_ptr<FakeTier> tier;
  std::unique_ptr<Engine> engine;
};

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

TEST_F(EngineTest, ViewsOfOneStorageAreOneUnitMovedOnce) {
  {
    Region region = Begin();
    Storage qkv = NewStorage(*device, kMB, 3);
    const Slot q = region.Pack(qkv), k = region.Pack(qkv), v = region.Pack(qkv);
    qkv.memory.reset();
    EXPECT_EQ(k.reason(), Reason::kShared);
    EXPECT_EQ(engine->stats().units, 1);
    Finish();
    EXPECT_EQ(engine->stats().bytes_out, static_cast<std::int64_t>(kMB));
    const Slot::Unpacked a = v.Unpack(), b = q.Unpack();
    EXPECT_EQ(a.memory, b.memory) << "they share storage as they did";
    EXPECT_TRUE(Good(k, 3));
    EXPECT_EQ(engine->stats().bytes_in, static_cast<std::int64_t>(kMB));
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, AStorageSavedAgainAfterItWasGivenUpIsStillOneUnit) {
  {
    Region first = Begin("first"), second = Begin("second");
    const Storage held = NewStorage(*device, kMB, 3);
    const Slot a = first.Pack(held);
    Finish();
    EXPECT_EQ(engine->stats().held_elsewhere_bytes, static_cast<std::int64_t>(kMB));
    const Slot b = second.Pack(held);
    EXPECT_EQ(b.reason(), Reason::kShared);
    EXPECT_EQ(engine->stats().bytes_out, static_cast<std::int64_t>(kMB));
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, AnotherVersionOfAStorageIsAnotherUnit) {
  {
    Region region = Begin();
    Storage storage = NewStorage(*device, kMB, 3);
    const Slot before = region.Pack(storage);
    Finish();
    device->Fill(*storage.memory, 4);
    storage.version = 1;
    const Slot after = region.Pack(storage);
    storage.memory.reset();
    EXPECT_EQ(after.reason(), Reason::kSwapped);
    EXPECT_TRUE(Good(before, 3));
    EXPECT_TRUE(Good(after, 4));
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, WithoutAWatchAnIdentityGivenToAnotherStorageIsAnotherUnit) {
  // As an allocator does that hands the address of a freed storage to the next one.
  FakeOptions fake;
  fake.watches = false;
  Make(fake);
  {
    Region region = Begin();
    Storage first = NewStorage(*device, kMB, 3);
    const std::uint64_t address = first.identity;
    const Slot a = region.Pack(first);
    first.memory.reset();
    Finish();
    Storage second = NewStorage(*device, kMB, 4);
    second.identity = address;
    const Slot b = region.Pack(second);
    EXPECT_EQ(b.reason(), Reason::kSwapped);
    second.memory.reset();
    Finish();
    EXPECT_TRUE(Good(a, 3));
    EXPECT_TRUE(Good(b, 4));
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

TEST_F(EngineTest, AForgottenStorageIsAnotherUnit) {
  {
    Region region = Begin();
    Storage storage = NewStorage(*device, kMB, 3);
    const Slot before = region.Pack(storage);
    Finish();
    device->Fill(*storage.memory, 4);
    engine->Forget(storage.identity);
    const Slot after = region.Pack(storage);
    EXPECT_EQ(after.reason(), Reason::kSwapped);
    storage.memory.reset();
    EXPECT_TRUE(Good(before, 3));
    EXPECT_TRUE(Good(after, 4));
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, OneViewToBeKeptKeepsTheStorage) {
  {
    Region region = Begin();
    Storage storage = NewStorage(*device, kMB, 3);
    const Slot moved = region.Pack(storage);
    const Slot kept = region.Pack(storage, Decision::kKeep);
    DeviceMemory* memory = storage.memory.get();
    storage.memory.reset();
    Finish();
    EXPECT_EQ(device->allocated_bytes(), kMB);
    EXPECT_EQ(moved.Unpack().memory.get(), memory);
    EXPECT_TRUE(Good(kept, 3));
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, KeptAfterItWasGivenUpTheLiveStorageIsAdopted) {
  {
    Region region = Begin();
    Storage storage = NewStorage(*device, kMB, 3);
    const Slot moved = region.Pack(storage);
    Finish();
    const Slot kept = region.Pack(storage, Decision::kKeep);
    DeviceMemory* memory = storage.memory.get();
    storage.memory.reset();
    EXPECT_EQ(moved.Unpack().memory.get(), memory);
    EXPECT_EQ(Changes().back(), "OnHost>Resident");
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, AViewOfPartOfAStorageMovesThatPart) {
  {
    Region region = Begin();
    Storage storage = NewStorage(*device, kMB, 3);
    storage.offset = 1000;
    storage.bytes = 500;
    const Slot slot = region.Pack(storage, Decision::kSwap);
    storage.memory.reset();
    EXPECT_EQ(slot.Unpack().offset, 1000u) << "still where it was";
    Finish();
    engine->Drain();
  }
  {
    Region region = Begin();
    Storage storage = NewStorage(*device, kMB, 3);
    storage.offset = 1000;
    storage.bytes = 500;
    const Slot slot = region.Pack(storage, Decision::kSwap);
    storage.memory.reset();
    Finish();
    const Slot::Unpacked got = slot.Unpack();
    EXPECT_EQ(got.offset, 0u);
    EXPECT_EQ(got.memory->bytes(), 500u);
    EXPECT_TRUE(device->Holds(*got.memory, 0, 500, 3, 1000));
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, SmallEmptyAndKeptTensorsStayAndSayWhy) {
  options.min_bytes = Bytes(1000);
  Make();
  options.min_bytes = Bytes(1000);
  engine = std::make_unique<Engine>(device, options);
  {
    Region region = Begin();
    EXPECT_EQ(Pack(region, 1, 999).reason(), Reason::kKeptSmall);
    EXPECT_EQ(Pack(region, 1, 0).reason(), Reason::kKeptEmpty);
    EXPECT_EQ(Pack(region, 1, kMB, Decision::kKeep).reason(), Reason::kKeptByCaller);
    EXPECT_EQ(Pack(region, 1, 999, Decision::kSwap).reason(), Reason::kSwapped)
        << "an explicit word wins";
    const Slot empty = Pack(region, 1, 0);
    EXPECT_EQ(empty.Unpack().memory->bytes(), 0u);
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, SmallTensorsTravelInFusedCopies) {
  options.fused_bytes = Bytes(4096);
  Make();
  options.min_bytes = Bytes(2000);
  engine = std::make_unique<Engine>(device, options);
  {
    RegionOptions fused;
    fused.site = "fused";
    fused.fuse = true;
    Region region = engine->Begin(fused);
    std::vector<Slot> slots;
    // 1000 bytes take 1024: four fill the first copy, the two others leave at the region's end.
    for (std::uint64_t i = 0; i < 6; ++i) slots.push_back(Pack(region, i, 1000));
    EXPECT_EQ(slots[0].reason(), Reason::kFused);
    region.End();
    EXPECT_EQ(device->calls(Call::kCopyOut), 2u);
    EXPECT_EQ(engine->stats().units, 2);
    Finish();
    EXPECT_EQ(device->allocated_bytes(), 0u);
    for (std::uint64_t i = 6; i-- > 0;) EXPECT_TRUE(Good(slots[i], i, 1000)) << i;
    EXPECT_EQ(device->calls(Call::kCopyIn), 2u);
    EXPECT_EQ(engine->stats().fused_batches, 2);
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, AFusedCopyWhoseSlotsAllDiedIsNeverSent) {
  options.min_bytes = Bytes(2000);
  engine = std::make_unique<Engine>(device, options);
  RegionOptions fused;
  fused.fuse = true;
  {
    Region region = engine->Begin(fused);
    { const Slot slot = Pack(region, 1, 1000); }
    const Slot slot = Pack(region, 2, 1000);
    EXPECT_TRUE(Good(slot, 2, 1000));
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

TEST_F(EngineTest, WhatNobodyCanSettleIsSetAsideAndTheStepGoesOn) {
  {
    Region region = Begin();
    int copies = 0;
    device->FailWhen([&](Call call) {
      return call == Call::kSynchronize || (call == Call::kCopyOut && ++copies == 1);
    });
    const Slot a = Pack(region, 1), b = Pack(region, 2);
    EXPECT_EQ(a.reason(), Reason::kKeptDeviceError);
    EXPECT_EQ(b.reason(), Reason::kSwapped);
    EXPECT_GT(engine->stats().abandoned_bytes, 0);
    Finish();
    EXPECT_TRUE(Good(b, 2));
    EXPECT_TRUE(Good(a, 1));
  }
  Finish();
  EXPECT_EQ(engine->stats().units, 0);
  EXPECT_EQ(device->allocated_bytes(), kMB) << "a's memory may be under a copy for ever";
}

TEST_F(EngineTest, ACopyOutThatTurnsOutToHaveFailedKeepsTheTensor) {
  {
    Region region = Begin();
    const Slot a = Pack(region, 1);
    device->AdvanceHost(5);
    bool asked = false;
    device->FailWhen([&](Call call) { return call == Call::kDone && !std::exchange(asked, true); });
    const Slot b = Pack(region, 2);  // looks whether a's copy is done
    EXPECT_EQ(engine->stats().device_errors, 1);
    EXPECT_THAT(Changes(), testing::Contains("Offloading>Resident"));
    Finish();
    EXPECT_TRUE(Good(a, 1));
    EXPECT_TRUE(Good(b, 2));
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, AtAUseWhatWasPrefetchedGivesWay) {
  FakeOptions fake;
  fake.capacity = 2 * kMB + kMB / 2;
  options.prefetch_distance = 2;
  Make(fake);
  {
    Region region = Begin();
    std::vector<Slot> slots;
    for (std::uint64_t i = 0; i < 4; ++i) {
      slots.push_back(Pack(region, i));
      Finish();
    }
    EXPECT_TRUE(Good(slots[3], 3));  // brings 2 back ahead of its use: memory is full
    EXPECT_TRUE(Good(slots[0], 0)) << "2 was given up for it";
    EXPECT_THAT(Changes(), testing::Contains("Prefetching>OnHost"));
    EXPECT_EQ(engine->stats().device_errors, 0);
    slots.pop_back();
    EXPECT_TRUE(Good(slots[2], 2));
    EXPECT_THROW(Good(slots[1], 1), FakeFailure) << "0 and 2 are in use";
    slots.pop_back();
    EXPECT_TRUE(Good(slots[1], 1)) << "nothing was lost";
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, ATensorWhoseOnlyCopyWentBadIsLostAndSaysSo) {
  MakeTier();
  options.window = Bytes(0);
  options.host_cap = Bytes(2 * kBlock);
  engine = std::make_unique<Engine>(device, options);
  {
    Region region = Begin();
    // a is given up when b is packed, by order alone: the host has not seen its copy done.
    const Slot a = Pack(region, 1), b = Pack(region, 2);
    // For c, a's block is to be written to file; waiting for its copy fails.
    device->FailNth(Call::kHostWait, 1);
    const Slot c = Pack(region, 3);
    EXPECT_EQ(c.reason(), Reason::kKeptHostFull);
    EXPECT_EQ(Changes().back(), "OnHost>Lost");
    for (int time = 0; time < 2; ++time) {
      try {
        a.Unpack();
        ADD_FAILURE() << "there are no bytes to give";
      } catch (const Error& error) {
        EXPECT_THAT(error.message(), HasSubstr("HostWait number"));
        EXPECT_THAT(error.message(), HasSubstr("100000 bytes of a saved tensor are gone"));
      }
    }
    EXPECT_TRUE(Good(b, 2));
    EXPECT_TRUE(Good(c, 3));
  }
  ExpectNothingLeft();
}

// --- The tier below ---

TEST_F(EngineTest, ThroughHostMemoryToFileAndBack) {
  MakeTier();
  {
    Region region = BeginFile();
    const Slot a = Pack(region, 1);
    Finish();
    const Slot b = Pack(region, 2);  // packing starts what became ready
    Finish();
    const Slot c = Pack(region, 3);
    Finish();
    EXPECT_EQ(engine->stats().file_bytes, static_cast<std::int64_t>(2 * kMB)) << "c has no next";
    EXPECT_TRUE(Good(a, 1));
    EXPECT_TRUE(Good(b, 2));
    EXPECT_TRUE(Good(c, 3));
    const std::vector<std::string> changes = Changes();
    const std::set<std::string> seen(changes.begin(), changes.end());
    for (const char* change :
         {"OnHost>Spilling", "Spilling>OnFile", "OnFile>Fetching", "Fetching>OnHost"}) {
      EXPECT_EQ(seen.count(change), 1u) << change;
    }
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, AWriteThatIsOvertakenByItsUseIsCancelled) {
  MakeTier();
  tier->SetPolls(0);
  {
    Region region = BeginFile();
    const Slot a = Pack(region, 1);
    Finish();
    const Slot b = Pack(region, 2);
    EXPECT_EQ(Changes().back(), "OnHost>Spilling");
    EXPECT_TRUE(Good(a, 1));
    const std::vector<std::string> changes = Changes();
    EXPECT_EQ(std::count(changes.begin(), changes.end(), "Spilling>OnHost"), 1);
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, HostMemoryAtItsCapSpillsWhatIsNeededLast) {
  options.host_cap = Bytes(3 * kBlock);
  MakeTier();
  {
    Program program(device, *engine, EqualLayers(10, kMB, 1, 1));
    for (int step = 0; step < 3; ++step) program.Step();
    EXPECT_EQ(program.wrong(), 0);
    EXPECT_GT(engine->stats().file_bytes, 0);
    EXPECT_LE(engine->stats().host_reserved_bytes, 3 * kBlock);
    EXPECT_EQ(engine->stats().kept_host_full, 0);
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, AtItsCapWithoutATierTensorsAreKept) {
  options.host_cap = Bytes(3 * kBlock);
  Make();
  Program program(device, *engine, EqualLayers(10, kMB, 1, 1));
  program.Step();
  EXPECT_EQ(program.wrong(), 0);
  EXPECT_EQ(engine->stats().kept_host_full, 7);
  EXPECT_EQ(engine->stats().bytes_out, static_cast<std::int64_t>(3 * kMB));
  ExpectNothingLeft();
}

TEST_F(EngineTest, AFullTierKeepsTheTensorOnTheHost) {
  MakeTier();
  tier->byte_cap = 0;
  {
    Region region = BeginFile();
    const Slot a = Pack(region, 1);
    Finish();
    const Slot b = Pack(region, 2);
    Finish();
    EXPECT_GT(engine->stats().tier_errors, 0);
    EXPECT_THAT(engine->stats().last_error, HasSubstr("fake.bin"));
    EXPECT_TRUE(Good(a, 1));
    EXPECT_TRUE(Good(b, 2));
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, AFailedWriteLosesNothing) {
  MakeTier();
  tier->FailWhen([](TierCall call) { return call == TierCall::kWrite; });
  {
    Region region = BeginFile();
    const Slot a = Pack(region, 1);
    Finish();
    const Slot b = Pack(region, 2);
    Finish();
    const Slot c = Pack(region, 3);
    EXPECT_TRUE(Good(a, 1));
    const std::vector<std::string> changes = Changes();
    EXPECT_GE(std::count(changes.begin(), changes.end(), "Spilling>OnHost"), 1);
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, AFailedReadFailsThatUseAndTheNextOneWorks) {
  for (const bool direct : {false, true}) {
    MakeTier(direct);
    {
      Region region = BeginFile();
      const Slot a = Pack(region, 1);
      Finish();
      const Slot b = Pack(region, 2);
      Finish();
      const Slot c = Pack(region, 3);
      Finish();
      bool failed = false;
      tier->FailWhen(
          [&](TierCall call) { return call == TierCall::kRead && !std::exchange(failed, true); });
      try {
        a.Unpack();
        ADD_FAILURE() << "the read failed";
      } catch (const Error& error) {
        EXPECT_THAT(error.message(), HasSubstr("fake.bin"));
      }
      EXPECT_TRUE(Good(a, 1));
      EXPECT_TRUE(Good(b, 2));
    }
    ExpectNothingLeft();
  }
}

TEST_F(EngineTest, WhereTheHostSeesDeviceMemoryItIsWrittenToFileItself) {
  MakeTier(true);
  {
    Region region = BeginFile();
    const Slot a = Pack(region, 1);
    Finish();
    EXPECT_EQ(device->allocated_bytes(), 0u);
    EXPECT_EQ(device->host_bytes(), 0u) << "no host copy";
    EXPECT_TRUE(Good(a, 1));
    EXPECT_THAT(Changes(), ElementsAre("Resident>Writing", "Writing>OnFile", "OnFile>Reading",
                                       "Reading>Resident"));
    const Slot b = Pack(region, 2);
    EXPECT_TRUE(Good(b, 2));
    EXPECT_EQ(Changes().back(), "Writing>Resident") << "used before it was written";
    tier->FailWhen([](TierCall call) { return call == TierCall::kWrite; });
    const Slot c = Pack(region, 3);
    Finish();
    EXPECT_EQ(Changes().back(), "Writing>Resident") << "the write failed; it is kept";
    EXPECT_TRUE(Good(c, 3));
  }
  ExpectNothingLeft();
}

TEST_F(EngineTest, GivenUpAgainAUnitThatIsOnFileNeedsNoSecondWrite) {
  options.keep_after_use = false;
  MakeTier(true);
  {
    Region region = BeginFile();
    const Slot a = Pack(region, 1), b = Pack(region, 2);
    Finish();
    EXPECT_TRUE(Good(b, 2));
    EXPECT_TRUE(Good(a, 1));
    const std::vector<std::string> changes = Changes();
    EXPECT_EQ(std::count(changes.begin(), changes.end(), "Resident>OnFile"), 1);
    EXPECT_TRUE(Good(b, 2));
    EXPECT_EQ(engine->stats().file_bytes, static_cast<std::int64_t>(2 * kMB));
  }
  ExpectNothingLeft();
}

}  // namespace
}  // namespace restow::swap
