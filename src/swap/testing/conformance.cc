#include "swap/testing/conformance.h"

#include <cstring>
#include <thread>
#include <vector>

#include "restow/swap/engine.h"

namespace restow::swap {
namespace {

constexpr std::size_t kBytes = 40000;

// Host memory of the device, freed with it.
struct Host {
  Host(std::shared_ptr<Device> owner, std::size_t bytes)
      : device(std::move(owner)), memory(device->AllocateHost(bytes, false)) {}
  ~Host() { device->FreeHost(memory); }
  std::shared_ptr<Device> device;
  HostMemory memory;
};

}  // namespace

TEST_P(DeviceConformance, HostMemoryIsAlignedAndAsLargeAsAsked) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4097}, std::size_t{1} << 20}) {
    const Host host(device, bytes);
    ASSERT_NE(host.memory.data, nullptr);
    EXPECT_EQ(host.memory.bytes, bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(host.memory.data) % 16, 0u);
    std::memset(host.memory.data, 1, bytes);
  }
}

TEST_P(DeviceConformance, PinnedMemoryIsGivenOrRefusedByAnException) {
  if (!device->capabilities().pinned_memory) {
    EXPECT_ANY_THROW(device->AllocateHost(4096, true));
    return;
  }
  const HostMemory memory = device->AllocateHost(4096, true);
  EXPECT_TRUE(memory.pinned);
  device->FreeHost(memory);
}

TEST_P(DeviceConformance, DeviceMemoryKnowsItsSizeAndLivesWhileItIsHeld) {
  const DeviceBuffer memory = under_test->Make(kBytes, 1);
  EXPECT_EQ(memory->bytes(), kBytes);
  const DeviceBuffer again = memory;
  EXPECT_TRUE(under_test->Holds(*again, 0, kBytes, 1, 0));
}

TEST_P(DeviceConformance, AnEventIsDoneAfterItWasWaitedForAndMayBeRecordedAgain) {
  const auto event = device->NewEvent();
  for (int round = 0; round < 3; ++round) {
    device->Record(*event, device->CurrentStream());
    device->HostWait(*event);
    EXPECT_TRUE(device->Done(*event));
  }
}

TEST_P(DeviceConformance, ACopyOutAndBackKeepsTheBytesWhenEventsOrderIt) {
  const Capabilities can = device->capabilities();
  const Stream compute = device->CurrentStream();
  const Stream out = can.copy_streams > 0 ? device->NewCopyStream(Direction::kOut) : compute;
  const Stream in = can.copy_streams > 1 ? device->NewCopyStream(Direction::kIn) : out;
  const Host host(device, kBytes);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const auto made = device->NewEvent(), gone = device->NewEvent(), room = device->NewEvent(),
               back = device->NewEvent();
    const DeviceBuffer source = under_test->Make(kBytes, seed);
    device->Record(*made, compute);
    device->StreamWait(out, *made);
    device->CopyOut(host.memory.data, *source, 0, kBytes, out);
    device->Record(*gone, out);
    const DeviceBuffer target = device->Allocate(kBytes, compute);
    device->Record(*room, compute);
    device->StreamWait(in, *room);
    device->StreamWait(in, *gone);
    device->CopyIn(*target, 0, host.memory.data, kBytes, in);
    device->Record(*back, in);
    device->StreamWait(compute, *back);
    EXPECT_TRUE(under_test->Holds(*target, 0, kBytes, seed, 0));
    device->HostWait(*back);
  }
}

TEST_P(DeviceConformance, PartsAreCopiedFromAndToTheirOffsets) {
  const Stream stream = device->CurrentStream();
  const Host host(device, 500);
  const DeviceBuffer source = under_test->Make(kBytes, 9);
  device->CopyOut(host.memory.data, *source, 1000, 500, stream);
  const DeviceBuffer target = under_test->Make(kBytes, 1);
  device->CopyIn(*target, 2000, host.memory.data, 500, stream);
  EXPECT_TRUE(under_test->Holds(*target, 2000, 500, 9, 1000));
  EXPECT_TRUE(under_test->Holds(*target, 0, 2000, 1, 0));
  EXPECT_TRUE(under_test->Holds(*target, 2500, kBytes - 2500, 1, 2500));
  device->Synchronize(stream);
}

TEST_P(DeviceConformance, CopiesOnTheDeviceKeepTheBytes) {
  if (!device->capabilities().copies_on_device) return;  // allowed: this device does not offer them
  const Stream stream = device->CurrentStream();
  const DeviceBuffer source = under_test->Make(kBytes, 9);
  const DeviceBuffer target = under_test->Make(kBytes, 1);
  device->CopyOnDevice(*target, 100, *source, 200, 300, stream);
  EXPECT_TRUE(under_test->Holds(*target, 100, 300, 9, 200));
  device->Synchronize(stream);
}

TEST_P(DeviceConformance, TimesOfEventsDoNotRunBackwards) {
  if (!device->capabilities().timed_events) return;  // allowed: this device's events carry no time
  const auto first = device->NewEvent(), second = device->NewEvent();
  device->Record(*first, device->CurrentStream());
  const DeviceBuffer memory = under_test->Make(kBytes, 1);
  device->Record(*second, device->CurrentStream());
  device->HostWait(*second);
  EXPECT_LE(device->EventSeconds(*first), device->EventSeconds(*second));
  EXPECT_LE(device->EventSeconds(*second), device->Now());
}

TEST_P(DeviceConformance, AWatchTellsWhenTheLastHolderIsGone) {
  DeviceBuffer memory = under_test->Make(kBytes, 1);
  const auto watch = memory->Watch();
  if (watch == nullptr) return;  // allowed: this device does not watch storages
  EXPECT_TRUE(watch->Alive());
  device->Synchronize(device->CurrentStream());
  memory.reset();
  EXPECT_FALSE(watch->Alive());
}

// The engine on the device: steps of a chain, all bytes back, nothing left.
TEST_P(DeviceConformance, AChainOfLayersTrainsOnIt) {
  Options options;
  options.window = Bytes(3 * kBytes);
  options.min_bytes = Bytes(4000);
  options.fused_bytes = Bytes(5000);
  Engine engine(device, options);
  for (std::uint64_t step = 0; step < 6; ++step) {
    std::vector<Slot> slots;
    for (std::uint64_t layer = 0; layer < 8; ++layer) {
      RegionOptions where;
      where.site = "layer" + std::to_string(layer);
      where.fuse = true;
      Region region = engine.Begin(where);
      for (const std::size_t bytes : {kBytes, std::size_t{1000}, std::size_t{2048}}) {
        const std::uint64_t seed = step * 100 + slots.size();
        slots.push_back(region.Pack({seed + 1, 0, 0, bytes, under_test->Make(bytes, seed)}));
      }
    }
    for (std::size_t i = slots.size(); i-- > 0;) {
      const Slot::Unpacked got = slots[i].Unpack();
      const std::size_t bytes = i % 3 == 0 ? kBytes : i % 3 == 1 ? 1000 : 2048;
      EXPECT_TRUE(under_test->Holds(*got.memory, got.offset, bytes, step * 100 + i, 0));
      slots.pop_back();
    }
  }
  engine.Drain();
  EXPECT_GT(engine.stats().bytes_out, 0);
  EXPECT_EQ(engine.stats().units, 0);
  EXPECT_EQ(engine.stats().host_used_bytes, 0);
  EXPECT_EQ(engine.stats().device_errors, 0);
}

TEST_P(DeviceConformance, TwoThreadsTrainTwoModelsOnOneEngine) {
  Options options;
  options.window = Bytes(3 * kBytes);
  options.min_bytes = Bytes(0);
  Engine engine(device, options);
  const auto train = [&](std::uint64_t base) {
    for (std::uint64_t step = 0; step < 8; ++step) {
      std::vector<Slot> slots;
      RegionOptions where;
      where.site = "model" + std::to_string(base);
      Region region = engine.Begin(where);
      for (std::uint64_t i = 0; i < 6; ++i) {
        const std::uint64_t seed = base + step * 10 + i;
        slots.push_back(region.Pack({seed, 0, 0, kBytes, under_test->Make(kBytes, seed)}));
      }
      region.End();
      for (std::uint64_t i = 6; i-- > 0;) {
        const Slot::Unpacked got = slots[i].Unpack();
        EXPECT_TRUE(under_test->Holds(*got.memory, got.offset, kBytes, base + step * 10 + i, 0));
        slots.pop_back();
      }
    }
  };
  std::thread other(train, 1000);
  train(5000);
  other.join();
  engine.Drain();
  EXPECT_EQ(engine.stats().units, 0);
  EXPECT_EQ(engine.stats().host_used_bytes, 0);
}

TEST_P(DeviceConformance, SlotsAreUsedAndDroppedOnOtherThreads) {
  Options options;
  options.window = Bytes(2 * kBytes);
  options.min_bytes = Bytes(0);
  Engine engine(device, options);
  for (std::uint64_t step = 0; step < 4; ++step) {
    std::vector<Slot> slots;
    Region region = engine.Begin({});
    for (std::uint64_t i = 0; i < 8; ++i) {
      slots.push_back(region.Pack({step * 8 + i + 1, 0, 0, kBytes, under_test->Make(kBytes, i)}));
    }
    // Two threads use every slot; each drops one half.
    const auto use = [&](std::size_t parity) {
      for (std::size_t i = 8; i-- > 0;) {
        const Slot::Unpacked got = slots[i].Unpack();
        EXPECT_TRUE(under_test->Holds(*got.memory, got.offset, kBytes, i, 0)) << parity;
      }
    };
    std::thread other(use, 0);
    use(1);
    other.join();
    std::thread dropper([&] { slots.resize(4); });
    dropper.join();
  }
  engine.Drain();
  EXPECT_EQ(engine.stats().units, 0);
}

}  // namespace restow::swap
