// The virtual clock against arithmetic by hand: 1 GB/s links, operators of 1 ms.
#include <gtest/gtest.h>

#include <cstring>

#include "emulator/memory.h"
#include "emulator/work.h"

namespace restow::emulator {
namespace {

constexpr double kMs = 1e-3;
constexpr std::uint64_t kMegabyte = 1'000'000;  // 1 ms on the link

struct ClockTest : testing::Test {
  void SetUp() override {
    Options options;
    options.trace = true;
    Configure(options);
    DeviceOptions device;
    device.h2d_bytes_per_second = 1e9;
    device.d2h_bytes_per_second = 1e9;
    device.op_cost = {{"*", {kMs, 0}}, {"big", {3 * kMs, 0}}, {"bytes", {0, 1e9}}};
    ConfigureDevice(0, device);
    RestartClock();
  }
  void TearDown() override {
    Configure({});
    ConfigureDevice(0, {});
    RestartClock();
  }
  static void Operate(int stream, const char* name = "op") {
    const OperatorRun run({0, stream}, name, {});
  }
  static void Move(int stream, Direction direction, std::uint64_t bytes) {
    Copy copy;
    copy.stream = {0, stream};
    copy.direction = direction;
    copy.bytes = bytes;
    copy.move = [] {};
    Launch(std::move(copy));
  }
  static double SyncedAt(int stream) {
    SyncStream({0, stream});
    return Now();
  }
};

TEST_F(ClockTest, LaunchesDoNotWait) {
  Operate(0);
  Operate(0);
  EXPECT_EQ(Now(), 0);
  EXPECT_EQ(SyncedAt(0), 2 * kMs);
  EXPECT_EQ(HostWait(), 2 * kMs);
}

TEST_F(ClockTest, LaunchCostsHoldUpTheHostAndAnIdleDevice) {
  Options options = CurrentOptions();
  options.launch_s = 2 * kMs;
  Configure(options);
  Operate(0);  // launched by 2 ms, done at 3 ms
  Operate(0);  // launched by 4 ms, done at 5 ms
  EXPECT_EQ(Now(), 4 * kMs);
  EXPECT_EQ(SyncedAt(0), 5 * kMs);
  EXPECT_EQ(HostWait(), 1 * kMs);
}

TEST_F(ClockTest, CopiesOverlapOperatorsAndEachOtherByDirection) {
  Operate(0, "big");                                 // 3 ms
  Move(1, Direction::kHostToDevice, 2 * kMegabyte);  // 2 ms
  Move(2, Direction::kDeviceToHost, 2 * kMegabyte);  // 2 ms
  EXPECT_EQ(SyncedAt(1), 2 * kMs);
  EXPECT_EQ(SyncedAt(2), 2 * kMs);
  EXPECT_EQ(SyncedAt(0), 3 * kMs);
}

TEST_F(ClockTest, CopiesInOneDirectionShareTheLink) {
  Move(1, Direction::kHostToDevice, 2 * kMegabyte);
  Move(2, Direction::kHostToDevice, 1 * kMegabyte);
  EXPECT_EQ(SyncedAt(2), 3 * kMs);
}

TEST_F(ClockTest, OperatorsOfTwoStreamsShareTheDevice) {
  Operate(0);
  Operate(1);
  EXPECT_EQ(SyncedAt(1), 2 * kMs);
}

TEST_F(ClockTest, AWaitDelaysTheWaiterAndNotTheHost) {
  Move(1, Direction::kHostToDevice, 5 * kMegabyte);
  Event copied;
  RecordEvent(copied, {0, 1});
  Operate(0);  // 0 to 1 ms
  WaitEvent(copied, {0, 0});
  Operate(0);  // 5 to 6 ms: a stall of 4 ms
  EXPECT_EQ(Now(), 0);
  EXPECT_EQ(SyncedAt(0), 6 * kMs);
}

TEST_F(ClockTest, PollingTakesTimeAndEndsWhenTheWorkIsDone) {
  Options options = CurrentOptions();
  options.poll_s = kMs / 4;
  Configure(options);
  Operate(0);
  Event done;
  RecordEvent(done, {0, 0});
  int polls = 0;
  while (!QueryEvent(done)) ++polls;
  EXPECT_EQ(polls, 4);
  EXPECT_EQ(Now(), kMs);
}

TEST_F(ClockTest, BytesCostTheirRate) {
  {
    OperatorRun run({0, 0}, "bytes", {});
    run.AddBytes(kMegabyte);
  }
  EXPECT_EQ(SyncedAt(0), kMs);
}

TEST_F(ClockTest, TheTimeBetweenEventsIsTheWorkBetweenThem) {
  Event begin;
  Event end;
  RecordEvent(begin, {0, 0});
  Operate(0, "big");
  RecordEvent(end, {0, 0});
  EXPECT_EQ(SecondsBetween(begin, end), 3 * kMs);
}

TEST_F(ClockTest, TheTraceShowsWhatRanWhen) {
  Operate(0);
  Move(1, Direction::kHostToDevice, kMegabyte);
  const auto trace = Trace();
  ASSERT_EQ(trace.size(), 2u);
  EXPECT_EQ(trace[0].name, "op");
  EXPECT_EQ(trace[0].end_s, kMs);
  EXPECT_EQ(trace[1].name, "copy host to device");
  EXPECT_EQ(trace[1].stream, 1);
}

TEST_F(ClockTest, AnEventOfBeforeARestartIsDone) {
  Operate(0, "big");
  Event old;
  RecordEvent(old, {0, 0});
  RestartClock();
  SyncEvent(old);
  EXPECT_EQ(Now(), 0);
}

TEST_F(ClockTest, RecordedMemoryIsGivenBackWhenItsStreamIsDone) {
  void* const data = Allocate(0, 0, kMegabyte);
  Move(1, Direction::kDeviceToHost, kMegabyte);  // until 1 ms
  RecordStream(data, 0, 1);
  Free(data);
  EXPECT_EQ(Memory(0).allocated_bytes, 0u);
  EXPECT_EQ(Memory(0).active_bytes, kMegabyte);
  SyncStream({0, 1});
  EXPECT_EQ(Memory(0).active_bytes, 0u);
}

TEST_F(ClockTest, AllocationWaitsForRecordedMemoryBeforeItFails) {
  DeviceOptions device = CurrentDeviceOptions(0);
  device.capacity_bytes = kMegabyte;
  ConfigureDevice(0, device);
  void* const first = Allocate(0, 0, kMegabyte);
  EXPECT_THROW(Allocate(0, 0, 1), OutOfMemory);
  Move(1, Direction::kDeviceToHost, kMegabyte);
  RecordStream(first, 0, 1);
  Free(first);
  void* const second = Allocate(0, 0, kMegabyte);
  EXPECT_EQ(Now(), kMs);
  Free(second);
}

}  // namespace
}  // namespace restow::emulator
