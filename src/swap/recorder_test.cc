#include "swap/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "restow/swap/engine.h"
#include "swap/fake/fake_device.h"
#include "swap/key_table.h"
#include "swap/testing/program.h"

namespace restow::swap {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(Recorder, KeepsTheLastOnesOldestFirst) {
  Recorder recorder(3);
  for (std::uint64_t unit = 1; unit <= 5; ++unit) {
    recorder.Add(0.5, unit, 10, State::kResident, Change::kOffload, State::kOffloading);
  }
  const std::vector<Transition> last = recorder.Last();
  ASSERT_EQ(last.size(), 3u);
  EXPECT_EQ(last.front().unit, 3u);
  EXPECT_EQ(last.back().number, 4u);
  EXPECT_EQ(ToString(last.back()),
            "#4 0.500000 s unit 5 (10 B): Resident -- offload --> Offloading");
}

TEST(Recorder, ACopyThatDoesNotFinishIsDiagnosed) {
  FakeOptions fake;
  fake.out_bytes_per_s = 1;  // 6,000 seconds for what follows
  const auto device = std::make_shared<FakeDevice>(fake);
  Options options;
  options.min_bytes = Bytes(0);
  Engine engine(device, options);
  RegionOptions where;
  where.site = "attention";
  Region region = engine.Begin(where);
  const Slot slot = region.Pack(NewStorage(*device, 6000, 1));
  EXPECT_THAT(engine.Diagnose(10), IsEmpty());
  device->AdvanceHost(11);
  const std::vector<std::string> late = engine.Diagnose(10);
  ASSERT_EQ(late.size(), 1u);
  EXPECT_THAT(late[0], HasSubstr("'attention', 6000 bytes, has been Offloading for 11.000 s"));
  device->AdvanceHost(6000);
  EXPECT_THAT(engine.Diagnose(10), IsEmpty()) << "it is done, only nobody looked yet";
}

TEST(Trace, TellsWhenEachCopyRan) {
  FakeOptions fake;
  fake.out_bytes_per_s = fake.in_bytes_per_s = 1000;
  const auto device = std::make_shared<FakeDevice>(fake);
  Options options;
  options.min_bytes = Bytes(0);
  options.keep_last_region = false;
  options.window = Bytes(2000);
  Engine engine(device, options);
  engine.StartTrace();
  Program program(device, engine, EqualLayers(4, 1000, 1, 1));
  program.Step();
  const std::vector<TraceEvent> trace = engine.StopTrace();
  // As drawn in schedule_test.cc: a leaves in second 1 to 2 and comes back in 6 to 7.
  ASSERT_EQ(trace.size(), 6u);
  EXPECT_EQ(trace.front().site, "a");
  EXPECT_EQ(trace.front().direction, Direction::kOut);
  EXPECT_DOUBLE_EQ(trace.front().begin_s, 1);
  EXPECT_DOUBLE_EQ(trace.front().end_s, 2);
  EXPECT_EQ(trace.back().site, "a");
  EXPECT_EQ(trace.back().direction, Direction::kIn);
  EXPECT_DOUBLE_EQ(trace.back().end_s - trace.back().begin_s, 1);
}

TEST(KeyTable, AgreesWithAMapOverManyInsertionsAndErasures) {
  KeyTable table;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> map;
  // One unit with a piece per key that may occur: 500 identities in two versions each.
  Unit unit;
  for (std::uint64_t i = 0; i < 1000; ++i) unit.pieces.Add().key = {(1 + i / 2) * 64, i % 2, 0, 8};
  std::uint64_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto piece = static_cast<std::uint32_t>((state >> 33) % 1000);
    const Key& key = unit.pieces[piece].key;
    const bool known = map.count({key.identity, key.version}) != 0;
    EXPECT_EQ(table.Find(key).unit != nullptr, known);
    if (known) {
      EXPECT_EQ(table.Find(key).piece, piece);
      table.Erase(unit, piece);
      map.erase({key.identity, key.version});
    } else {
      map[{key.identity, key.version}] = piece;
      table.Insert(unit, piece);
    }
    EXPECT_EQ(table.size(), map.size());
  }
}

}  // namespace
}  // namespace restow::swap
