// Random programs of operators, copies, waits, frees and host accesses, against an oracle that
// keeps explicit sets of what is ordered before what.
//
// RESTOW_EMULATOR_PROGRAMS and RESTOW_EMULATOR_SEED choose how many and which; both are printed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <set>

#include "emulator/memory.h"
#include "emulator/work.h"

namespace restow::emulator {
namespace {

constexpr int kUsed = 4;    // streams
constexpr int kSteps = 60;  // actions of a program
constexpr std::uint64_t kBytes = 16;

int FromEnvironment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

using Nodes = std::set<int>;  // actions

void Add(Nodes& nodes, const Nodes& more) { nodes.insert(more.begin(), more.end()); }

struct OracleAccess {
  int node;
  int stream;  // -1: the host
  bool write;
};

struct TestBlock {
  unsigned char* data = nullptr;
  bool host = false;
  int home = 0;
  int value = kPoison;  // of every byte, once everything is done
  std::vector<OracleAccess> accesses;
};

struct TestEvent {
  Event event;
  Nodes known;
};

// Runs a program and knows, by sets, what is ordered.
class Program {
 public:
  Program(unsigned seed, bool correct) : draws_(seed), correct_(correct) {
    for (int i = 0; i < 3; ++i) AddBlock(false);
    for (int i = 0; i < 2; ++i) AddBlock(true);
  }
  ~Program() {
    SyncDevice(0);
    for (const TestBlock& block : blocks_) Free(block.data);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // One action; false when it conflicts with an earlier one.
  bool Step() {
    switch (Draw(9)) {
      case 0:
      case 1:
      case 2:
        Operate();
        break;
      case 3:
      case 4:
        Move();
        break;
      case 5:
        TouchOnHost();
        break;
      case 6:
        RecordOrWait();
        break;
      case 7:
        Sync(Draw(kUsed));
        break;
      default:
        Renew();
    }
    return !conflict_;
  }

  void CheckValues() {
    SyncDevice(0);
    for (const TestBlock& block : blocks_) {
      for (std::uint64_t i = 0; i < kBytes; ++i) ASSERT_EQ(block.data[i], block.value);
    }
  }

 private:
  int Draw(int below) { return static_cast<int>(draws_() % static_cast<unsigned>(below)); }
  TestBlock& AnyBlock() { return blocks_[static_cast<std::size_t>(Draw(5))]; }
  TestBlock& AnyBlock(bool host) {
    return blocks_[static_cast<std::size_t>(host ? 3 + Draw(2) : Draw(3))];
  }

  void AddBlock(bool host) {
    blocks_.emplace_back();
    Fill(blocks_.back(), host);
  }
  void Fill(TestBlock& block, bool host) {
    block = {};
    block.host = host;
    block.home = host ? -1 : Draw(kUsed);
    block.data = static_cast<unsigned char*>(host ? AllocatePinned(kBytes)
                                                  : Allocate(0, block.home, kBytes));
    // Whoever touches new memory comes after the work that its stream had before.
    if (!host && last_[block.home] >= 0) {
      block.accesses.push_back({last_[block.home], block.home, true});
    }
  }

  static Use UseOf(const TestBlock& block, bool read, bool write) {
    const auto address = reinterpret_cast<std::uintptr_t>(block.data);
    return {{{address, address + kBytes}}, read, write, "byte", {kBytes}};
  }

  Nodes KnownTo(int stream) const {
    Nodes known = host_known_;
    if (stream >= 0) Add(known, known_[stream]);
    return known;
  }

  // Before an access: a correct program orders it, any other notes whether it conflicts.
  void Order(int stream, TestBlock& block, bool write) {
    for (const OracleAccess& access : std::vector<OracleAccess>(block.accesses)) {
      if (!write && !access.write) continue;
      if (KnownTo(stream).contains(access.node)) continue;
      if (!correct_) {
        conflict_ = true;
        return;
      }
      if (stream < 0 || Draw(3) == 0) {
        Sync(access.stream);
      } else {
        TestEvent event;
        Record(event, access.stream);
        Wait(event, stream);
      }
    }
  }

  void Note(int stream, int node, TestBlock& block, bool write) {
    block.accesses.push_back({node, stream, write});
  }

  int NewNode(int stream) {
    const int node = next_++;
    Add(known_[stream], host_known_);
    known_[stream].insert(node);
    last_[stream] = node;
    return node;
  }

  void Operate() {
    const int stream = Draw(kUsed);
    TestBlock& in = AnyBlock(false);
    TestBlock& out = AnyBlock(false);
    Order(stream, in, false);
    Order(stream, out, true);
    const int node = NewNode(stream);
    {
      const OperatorRun run({0, stream}, "op", {UseOf(in, true, false), UseOf(out, false, true)});
      std::memset(out.data, Next(in.data[0]), kBytes);
    }
    Note(stream, node, in, false);
    Note(stream, node, out, true);
    out.value = Next(in.value);
  }
  static int Next(int value) { return (value * 5 + 3) % 251; }

  void Move() {
    const bool out = Draw(2) == 0;
    const int stream = Draw(kUsed);
    TestBlock& from = AnyBlock(!out);
    TestBlock& to = AnyBlock(out);
    Order(stream, from, false);
    Order(stream, to, true);
    const int node = NewNode(stream);
    Copy copy;
    copy.stream = {0, stream};
    copy.direction = out ? Direction::kDeviceToHost : Direction::kHostToDevice;
    copy.bytes = kBytes;
    copy.uses = {UseOf(from, true, false), UseOf(to, false, true)};
    copy.move = [a = from.data, b = to.data] { std::memcpy(b, a, kBytes); };
    Launch(std::move(copy));
    Note(stream, node, from, false);
    Note(stream, node, to, true);
    to.value = from.value;
  }

  void TouchOnHost() {
    TestBlock& block = AnyBlock(true);
    const bool write = Draw(2) == 0;
    Order(-1, block, write);
    const int node = next_++;
    host_known_.insert(node);
    HostAccess("host", {UseOf(block, !write, write)});
    if (write) {
      block.value = Draw(250);
      std::memset(block.data, block.value, kBytes);
    } else if (correct_) {
      EXPECT_EQ(block.data[0], block.value);
    }
    Note(-1, node, block, write);
  }

  void Record(TestEvent& event, int stream) {
    RecordEvent(event.event, {0, stream});
    event.known = KnownTo(stream);
  }
  void Wait(const TestEvent& event, int stream) {
    WaitEvent(event.event, {0, stream});
    Add(known_[stream], event.known);
  }
  void RecordOrWait() {
    TestEvent& event = events_[Draw(2)];
    switch (Draw(4)) {
      case 0:
        return Record(event, Draw(kUsed));
      case 1:
        SyncEvent(event.event);
        break;
      case 2:
        if (!QueryEvent(event.event)) return;
        break;
      default:
        return Wait(event, Draw(kUsed));
    }
    Add(host_known_, event.known);
  }
  void Sync(int stream) {
    SyncStream({0, stream});
    Add(host_known_, known_[stream]);
  }

  // Frees a block and takes a new one in its place.
  void Renew() {
    TestBlock& block = AnyBlock();
    Order(block.home, block, true);
    const bool host = block.host;
    Free(block.data);
    Fill(block, host);
  }

  std::mt19937 draws_;
  const bool correct_;
  bool conflict_ = false;
  int next_ = 0;
  std::vector<TestBlock> blocks_;  // three of the device, two of the host
  TestEvent events_[2];
  Nodes known_[kUsed];
  int last_[kUsed] = {-1, -1, -1, -1};
  Nodes host_known_;
};

struct ProgramsTest : testing::TestWithParam<Schedule> {
  ProgramsTest() {
    std::printf("programs: %d, first seed: %d\n", programs_, seed_);
    Options options;
    options.schedule = GetParam();
    options.seed = static_cast<std::uint64_t>(seed_);
    Configure(options);
    ClearRaces();
  }
  ~ProgramsTest() override {
    Configure({});
    ClearRaces();
  }
  const int programs_ = FromEnvironment("RESTOW_EMULATOR_PROGRAMS", 250);
  const int seed_ = FromEnvironment("RESTOW_EMULATOR_SEED", 1);
};

struct CorrectPrograms : ProgramsTest {};
TEST_P(CorrectPrograms, ComputeTheirValuesWithoutAnAlarm) {
  for (int i = 0; i < programs_; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed_ + i));
    Program program(static_cast<unsigned>(seed_ + i), true);
    for (int step = 0; step < kSteps; ++step) program.Step();
    ASSERT_EQ(Races(), std::vector<Race>{});
    program.CheckValues();
  }
}

struct AnyPrograms : ProgramsTest {};
TEST_P(AnyPrograms, HaveTheirFirstConflictFoundAndNothingBeforeIt) {
  int wrong = 0;
  for (int i = 0; i < programs_; ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed_ + i));
    ClearRaces();
    Program program(static_cast<unsigned>(seed_ + i), false);
    for (int step = 0; step < kSteps; ++step) {
      const bool right = program.Step();
      ASSERT_EQ(Races().empty(), right) << "step " << step;
      if (!right) {
        ++wrong;
        break;
      }
    }
  }
  EXPECT_GT(wrong, programs_ / 2);
}

std::string NameOf(const testing::TestParamInfo<Schedule>& each) {
  const std::vector<std::string> names{"Early", "Late", "Random", "Threads"};
  return names[static_cast<std::size_t>(each.param)];
}

INSTANTIATE_TEST_SUITE_P(Schedules, CorrectPrograms,
                         testing::Values(Schedule::kEarly, Schedule::kLate, Schedule::kRandom,
                                         Schedule::kThreads),
                         NameOf);

// Not on threads: there a wrong program races for real.
INSTANTIATE_TEST_SUITE_P(Schedules, AnyPrograms,
                         testing::Values(Schedule::kEarly, Schedule::kLate, Schedule::kRandom),
                         NameOf);

}  // namespace
}  // namespace restow::emulator
