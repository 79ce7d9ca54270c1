// Each classic bug, and beside it the program that does it right, on every deterministic schedule:
// on threads a bug is a race of the test itself. Correct programs run there in programs_test.cc.
#include <gtest/gtest.h>

#include <cstring>

#include "emulator/memory.h"
#include "emulator/work.h"

namespace restow::emulator {
namespace {

constexpr std::uint64_t kBytes = 64;
constexpr StreamName kCompute{0, 0};
constexpr StreamName kCopies{0, 1};

Use UseOf(void* data, bool write) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return {{{address, address + kBytes}}, !write, write, "byte", {kBytes}};
}

struct BugsTest : testing::TestWithParam<Schedule> {
  void SetUp() override {
    Options options;
    options.schedule = GetParam();
    Configure(options);
    ConfigureDevice(0, {});
    RestartClock();
    ClearRaces();
  }
  void TearDown() override {
    Configure({});
    ClearRaces();
  }

  static void* DeviceBlock() { return Allocate(0, kCompute.stream, kBytes); }
  static void* HostBlock(int value) {
    void* const data = AllocatePinned(kBytes);
    std::memset(data, value, kBytes);
    return data;
  }
  static void Fill(StreamName stream, void* data, int value) {
    const OperatorRun run(stream, "fill", {UseOf(data, true)});
    std::memset(data, value, kBytes);
  }
  // An operator that looks at one byte.
  static int Look(StreamName stream, void* data) {
    const OperatorRun run(stream, "look", {UseOf(data, false)});
    return static_cast<unsigned char*>(data)[5];
  }
  static void Move(StreamName stream, Direction direction, void* from, void* to) {
    Copy copy;
    copy.stream = stream;
    copy.direction = direction;
    copy.bytes = kBytes;
    copy.uses = {UseOf(from, false), UseOf(to, true)};
    copy.move = [from, to] { std::memcpy(to, from, kBytes); };
    Launch(std::move(copy));
  }
  static void Wait(StreamName waiter, StreamName on) {
    Event event;
    RecordEvent(event, on);
    WaitEvent(event, waiter);
  }
  static std::vector<std::string> Kinds() {
    std::vector<std::string> kinds;
    for (const Race& race : Races()) kinds.push_back(race.kind);
    return kinds;
  }
  static std::vector<std::string> Only(const char* kind) { return {kind}; }
  static bool Late() { return GetParam() == Schedule::kLate; }
};

TEST_P(BugsTest, UsingACopyThatWasWaitedForIsRight) {
  void* const host = HostBlock(7);
  void* const device = DeviceBlock();
  Move(kCopies, Direction::kHostToDevice, host, device);
  Wait(kCompute, kCopies);
  EXPECT_EQ(Look(kCompute, device), 7);
  EXPECT_EQ(Kinds(), std::vector<std::string>{});
  SyncDevice(0);
  Free(device);
  FreePinned(host);
}

TEST_P(BugsTest, MissingWaitBeforeUseIsFoundAndDeliversPoisonWhenLate) {
  void* const host = HostBlock(7);
  void* const device = DeviceBlock();
  Move(kCopies, Direction::kHostToDevice, host, device);
  const int seen = Look(kCompute, device);
  EXPECT_EQ(Kinds(), Only(kMissingWaitBeforeUse));
  if (Late()) {
    EXPECT_EQ(seen, kPoison);
  }
  SyncDevice(0);
  EXPECT_EQ(static_cast<unsigned char*>(device)[5], 7) << "the copy itself must not be harmed";
  Free(device);
  FreePinned(host);
}

TEST_P(BugsTest, MissingWaitBeforeACopyOutIsFoundAndDeliversPoisonWhenLate) {
  void* const host = HostBlock(0);
  void* const device = DeviceBlock();
  Fill(kCompute, device, 3);
  Move(kCopies, Direction::kDeviceToHost, device, host);
  SyncDevice(0);
  EXPECT_EQ(Kinds(), Only(kMissingWaitBeforeUse));
  if (Late()) {
    EXPECT_EQ(static_cast<unsigned char*>(host)[5], kPoison);
  }
  Free(device);
  FreePinned(host);
}

TEST_P(BugsTest, WaitingOnTheWrongStreamIsFound) {
  void* const host = HostBlock(7);
  void* const device = DeviceBlock();
  Move(kCopies, Direction::kHostToDevice, host, device);
  Wait(kCompute, {0, 2});
  const int seen = Look(kCompute, device);
  EXPECT_EQ(Kinds(), Only(kMissingWaitBeforeUse));
  if (Late()) {
    EXPECT_EQ(seen, kPoison);
  }
  SyncDevice(0);
  Free(device);
  FreePinned(host);
}

TEST_P(BugsTest, MissingWaitBeforeReuseIsFoundAndDeliversTheNewBytesWhenLate) {
  void* const host = HostBlock(0);
  void* const device = DeviceBlock();
  Fill(kCompute, device, 3);
  Wait(kCopies, kCompute);
  Move(kCopies, Direction::kDeviceToHost, device, host);
  Fill(kCompute, device, 4);
  EXPECT_EQ(Kinds(), Only(kMissingWaitBeforeReuse));
  SyncDevice(0);
  if (Late()) {
    EXPECT_EQ(static_cast<unsigned char*>(host)[5], 4);
  }
  Free(device);
  FreePinned(host);
}

TEST_P(BugsTest, WritingFreshMemoryThatEarlierWorkMayStillUseIsFound) {
  void* const old = DeviceBlock();
  Fill(kCompute, old, 1);
  Free(old);
  void* const device = DeviceBlock();
  void* const host = HostBlock(7);
  Move(kCopies, Direction::kHostToDevice, host, device);
  EXPECT_EQ(Kinds(), Only(kMissingWaitBeforeReuse));
  SyncDevice(0);
  Free(device);
  FreePinned(host);
}

TEST_P(BugsTest, EarlyFreeIsFoundAndDeliversPoisonWhenLate) {
  void* const host = HostBlock(0);
  void* const device = DeviceBlock();
  Fill(kCompute, device, 3);
  Wait(kCopies, kCompute);
  Move(kCopies, Direction::kDeviceToHost, device, host);
  Free(device);
  EXPECT_EQ(Kinds(), Only(kEarlyFree));
  SyncDevice(0);
  if (Late()) {
    EXPECT_EQ(static_cast<unsigned char*>(host)[5], kPoison);
  }
  FreePinned(host);
}

TEST_P(BugsTest, FreeingAfterAWaitOrARecordIsRight) {
  for (const bool record : {false, true}) {
    void* const host = HostBlock(0);
    void* const device = DeviceBlock();
    Fill(kCompute, device, 3);
    Wait(kCopies, kCompute);
    Move(kCopies, Direction::kDeviceToHost, device, host);
    if (record) {
      RecordStream(device, 0, kCopies.stream);
    } else {
      Wait(kCompute, kCopies);
    }
    Free(device);
    EXPECT_EQ(Kinds(), std::vector<std::string>{});
    SyncDevice(0);
    EXPECT_EQ(static_cast<unsigned char*>(host)[5], 3);
    FreePinned(host);
  }
}

TEST_P(BugsTest, FreeingBehindWorkOfTheHomeStreamIsRight) {
  void* const host = HostBlock(0);
  void* const device = DeviceBlock();
  Fill(kCompute, device, 3);
  Move(kCompute, Direction::kDeviceToHost, device, host);
  Free(device);
  SyncDevice(0);
  EXPECT_EQ(static_cast<unsigned char*>(host)[5], 3);
  EXPECT_EQ(Kinds(), std::vector<std::string>{});
  FreePinned(host);
}

TEST_P(BugsTest, HostBlockReusedEarlyIsFoundAndDeliversTheNewBytesWhenLate) {
  void* const host = HostBlock(7);
  void* const device = DeviceBlock();
  Move(kCompute, Direction::kHostToDevice, host, device);
  std::memset(host, 8, kBytes);
  HostAccess("fill", {UseOf(host, true)});
  EXPECT_EQ(Kinds(), Only(kHostReusedEarly));
  const int seen = Look(kCompute, device);
  if (Late()) {
    EXPECT_EQ(seen, 8);
  }
  SyncDevice(0);
  Free(device);
  FreePinned(host);
}

TEST_P(BugsTest, HostBlockReadEarlyIsFound) {
  void* const host = HostBlock(0);
  void* const device = DeviceBlock();
  Fill(kCompute, device, 3);
  Move(kCompute, Direction::kDeviceToHost, device, host);
  HostAccess("sum", {UseOf(host, false)});
  EXPECT_EQ(Kinds(), Only(kHostReadEarly));
  if (Late()) {
    EXPECT_EQ(static_cast<unsigned char*>(host)[5], 0);
  }
  SyncDevice(0);
  Free(device);
  FreePinned(host);
}

TEST_P(BugsTest, ReadingAHostBlockAfterItsEventIsRight) {
  void* const host = HostBlock(0);
  void* const device = DeviceBlock();
  Fill(kCompute, device, 3);
  Move(kCompute, Direction::kDeviceToHost, device, host);
  Event event;
  RecordEvent(event, kCompute);
  while (!QueryEvent(event)) {
  }
  HostAccess("sum", {UseOf(host, false)});
  EXPECT_EQ(static_cast<unsigned char*>(host)[5], 3);
  EXPECT_EQ(Kinds(), std::vector<std::string>{});
  Free(device);
  FreePinned(host);
}

TEST_P(BugsTest, ReadAfterFreeIsFoundAndReadsPoison) {
  void* const device = DeviceBlock();
  Fill(kCompute, device, 3);
  Free(device);
  EXPECT_EQ(Look(kCompute, device), kPoison);
  EXPECT_EQ(Kinds(), Only(kReadAfterFree));
}

TEST_P(BugsTest, ARaceNamesBothOperationsAndTheTensor) {
  void* const device = DeviceBlock();
  Fill(kCompute, device, 3);
  Look(kCopies, device);
  ASSERT_EQ(Races().size(), 1u);
  const Race race = Races()[0];
  EXPECT_EQ(race.first, "fill on emu:0 stream 0");
  EXPECT_EQ(race.second, "look on emu:0 stream 1");
  EXPECT_NE(race.tensor.find("byte[64] of emu:0, made by allocation on emu:0 stream 0"),
            std::string::npos)
      << race.tensor;
  SyncDevice(0);
  Free(device);
}

std::string NameOf(const testing::TestParamInfo<Schedule>& each) {
  const std::vector<std::string> names{"Early", "Late", "Random"};
  return names[static_cast<std::size_t>(each.param)];
}

INSTANTIATE_TEST_SUITE_P(Schedules, BugsTest,
                         testing::Values(Schedule::kEarly, Schedule::kLate, Schedule::kRandom),
                         NameOf);

}  // namespace
}  // namespace restow::emulator
