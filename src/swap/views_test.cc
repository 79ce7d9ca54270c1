// Which saves share a unit, which part of a storage moves, and what stays where it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "restow/swap/engine.h"
#include "swap/testing/engine_fixture.h"
#include "swap/testing/program.h"

namespace restow::swap {
namespace {

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

}  // namespace
}  // namespace restow::swap
