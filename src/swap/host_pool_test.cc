#include "swap/host_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "swap/fake/fake_device.h"

namespace restow::swap {
namespace {

constexpr std::int64_t kKilo = 1024;

class HostPoolTest : public testing::Test {
 protected:
  ~HostPoolTest() override {
    pool.reset();
    EXPECT_EQ(device->host_bytes(), 0u);
    EXPECT_TRUE(device->errors().empty());
  }
  void Make(std::int64_t cap = 1 << 30, PinFailure failure = PinFailure::kPageable) {
    pool = std::make_unique<HostPool>(device, HostPoolOptions{Bytes(cap), failure});
  }
  double Ratio() const {
    const HostPoolStats stats = pool->stats();
    return static_cast<double>(stats.reserved_bytes) / static_cast<double>(stats.used_bytes);
  }
  std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
  std::unique_ptr<HostPool> pool;
};

TEST_F(HostPoolTest, OddSizesReserveAtMostATenthMoreThanTheyUse) {
  Make();
  std::mt19937 random(1);
  std::vector<HostBlock> blocks;
  for (int i = 0; i < 200; ++i) {
    const std::size_t bytes = i % 8 == 0 ? 1048577 + random() % 1000000 : 2000 + random() % 90000;
    blocks.push_back(*pool->Take(bytes));
    if (i > 30) {
      EXPECT_LE(Ratio(), 1.1) << "block " << i;
    }
  }
  for (HostBlock& block : blocks) pool->Give(std::move(block), {});
}

TEST_F(HostPoolTest, BlocksDoNotOverlapAndAreAligned) {
  Make();
  std::vector<HostBlock> blocks;
  std::set<std::pair<std::byte*, std::byte*>> spans;
  for (std::size_t i = 1; i < 300; ++i) {
    blocks.push_back(*pool->Take(i * 517));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back().data) % 16, 0u);
    spans.insert({blocks.back().data, blocks.back().data + i * 517});
  }
  std::byte* end = nullptr;
  for (const auto& [from, to] : spans) {
    EXPECT_GE(from, end);
    end = to;
  }
  for (HostBlock& block : blocks) pool->Give(std::move(block), {});
}

TEST_F(HostPoolTest, TheSameSizesAgainAllocateNothingInAnyOrder) {
  Make();
  std::mt19937 random(2);
  std::vector<std::size_t> sizes;
  for (int i = 0; i < 40; ++i) sizes.push_back(1000 + random() % 2000000);
  std::int64_t after_first = 0;
  for (int step = 0; step < 20; ++step) {
    std::shuffle(sizes.begin(), sizes.end(), random);
    std::vector<HostBlock> blocks;
    if (step == 0) std::sort(sizes.begin(), sizes.end());
    for (const std::size_t bytes : sizes) blocks.push_back(*pool->Take(bytes));
    if (step == 0) after_first = pool->stats().allocations;
    for (HostBlock& block : blocks) pool->Give(std::move(block), {});
    if (step % 2 == 0) std::sort(sizes.begin(), sizes.end());
  }
  // Sizes taken in another order may take a neighbour's block; the bound is a tenth per size.
  EXPECT_LE(pool->stats().allocations, after_first + 20);
}

TEST_F(HostPoolTest, TheSameStepAgainAllocatesNothing) {
  Make();
  std::mt19937 random(3);
  std::vector<std::size_t> sizes;
  for (int i = 0; i < 40; ++i) sizes.push_back(1000 + random() % 2000000);
  std::int64_t after_first = 0;
  for (int step = 0; step < 1000; ++step) {
    std::vector<HostBlock> blocks;
    for (const std::size_t bytes : sizes) blocks.push_back(*pool->Take(bytes));
    for (std::size_t i = blocks.size(); i-- > 0;) pool->Give(std::move(blocks[i]), {});
    if (step == 0) after_first = pool->stats().allocations;
  }
  EXPECT_EQ(pool->stats().allocations, after_first);
  EXPECT_EQ(pool->stats().used_bytes, 0);
}

TEST_F(HostPoolTest, ReservedBytesNeverExceedTheCap) {
  Make(100 * kKilo);
  std::vector<HostBlock> blocks;
  while (auto block = pool->Take(9000)) blocks.push_back(std::move(*block));
  EXPECT_LE(pool->stats().reserved_bytes, 100 * kKilo);
  EXPECT_GE(blocks.size(), 10u) << "and the cap is used: 11 blocks of 9,024 bytes would fit";
  EXPECT_EQ(pool->stats().refusals, 1);
  for (HostBlock& block : blocks) pool->Give(std::move(block), {});
}

TEST_F(HostPoolTest, FreeSlabsMakeRoomForOtherSizesUnderTheCap) {
  Make(2000 * kKilo);
  for (const std::size_t bytes : {1500 * kKilo, 1900 * kKilo, 1200 * kKilo}) {
    auto block = pool->Take(bytes);
    ASSERT_TRUE(block.has_value()) << bytes;
    pool->Give(std::move(*block), {});
  }
  EXPECT_LE(pool->stats().peak_reserved_bytes, 2000 * kKilo);
}

TEST_F(HostPoolTest, ChangingShapesDoNotPileUp) {
  Make();
  for (int step = 0; step < 30; ++step) {
    std::vector<HostBlock> blocks;
    for (int i = 0; i < 10; ++i) {
      blocks.push_back(*pool->Take(static_cast<std::size_t>(1100000 + 130000 * step + i)));
    }
    EXPECT_LE(Ratio(), 1.1) << step;
    for (HostBlock& block : blocks) pool->Give(std::move(block), {});
  }
}

TEST_F(HostPoolTest, ABlockCarriesTheEventOfItsLastCopy) {
  Make();
  HostBlock block = *pool->Take(5000);
  EXPECT_FALSE(block.guard);
  device->Compute("x", 1, {}, {});
  const EventRef event = pool->events().Mark(device->CurrentStream());
  pool->Give(std::move(block), event);
  const HostBlock again = *pool->Take(5000);
  EXPECT_TRUE(again.guard == event);
  EXPECT_FALSE(again.guard.Done(*device));
  pool->Give(again, {});
}

TEST_F(HostPoolTest, ASlabUnderACopyIsFreedOnlyAfterIt) {
  Make(3000 * kKilo);
  HostBlock block = *pool->Take(2000 * kKilo);
  const DeviceBuffer memory = device->Allocate(1000, device->CurrentStream());
  device->Fill(*memory, 1);
  device->CopyOut(block.data, *memory, 0, 1000, device->CurrentStream());
  const EventRef event = pool->events().Mark(device->CurrentStream());
  pool->Give(std::move(block), event);
  HostBlock other = *pool->Take(2900 * kKilo);  // the fake reports a free under a copy
  EXPECT_TRUE(event.SeenDone());
  pool->Give(std::move(other), {});
}

TEST_F(HostPoolTest, MemoryThatCannotBePinnedIsPageableOrRefused) {
  FakeOptions options;
  options.pin_limit = 0;
  device->SetOptions(options);
  Make();
  HostBlock block = *pool->Take(5000);
  EXPECT_EQ(pool->stats().pin_failures, 1);
  pool->Give(std::move(block), {});
  Make(1 << 30, PinFailure::kKeep);
  EXPECT_FALSE(pool->Take(5000).has_value());
  EXPECT_EQ(pool->stats().pin_failures, 1);
}

TEST_F(HostPoolTest, AHostThatRefusesIsSaidSo) {
  FakeOptions options;
  options.host_limit = 100;
  device->SetOptions(options);
  Make();
  EXPECT_FALSE(pool->Take(5000).has_value());
  EXPECT_EQ(pool->stats().refusals, 1);
}

}  // namespace
}  // namespace restow::swap
