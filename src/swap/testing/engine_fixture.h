// The engine on the fake device, with what its tests share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "restow/swap/engine.h"
#include "swap/fake/fake_device.h"
#include "swap/fake/fake_tier.h"
#include "swap/testing/program.h"

namespace restow::swap {

// One "megabyte" of these tests, small so that they are quick: copies run at one a second.
inline constexpr std::size_t kMB = 100000;
// What the pool reserves for it: whole multiples of 64 bytes.
inline constexpr std::int64_t kBlock = 100032;

class EngineTest : public testing::Test {
 protected:
  EngineTest() { Make(); }
  ~EngineTest() override {
    EXPECT_THAT(device->errors(), testing::IsEmpty());
    if (tier) {
      EXPECT_THAT(tier->errors(), testing::IsEmpty());
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

}  // namespace restow::swap
