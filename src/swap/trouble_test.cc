// Failures of the device, and the tier below the host: what is lost (nothing), and what is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "restow/base/error.h"
#include "restow/swap/engine.h"
#include "swap/testing/engine_fixture.h"

namespace restow::swap {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
    EXPECT_THAT(Changes(), testing::Contains("OnHost>Lost"));
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
