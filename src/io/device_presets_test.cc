#include "io/device_presets.h"

#include <gmock/gmock.h>

#include "io/cluster_reader.h"
#include "io/test_jobs.h"
#include "restow/io/presets.h"

namespace restow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(DevicePresets, AreSortedAndComplete) {
  EXPECT_THAT(DevicePresets(), ElementsAre("a100-40", "a100-80", "ascend-910b", "ascend-910c",
                                           "b200", "b300", "gb200", "gb300", "h100-500w",
                                           "h100-sxm", "h200", "h800", "mi300x", "v100"));
}

TEST(DevicePresets, StateEveryFigureWithASource) {
  for (const std::string& name : DevicePresets()) {
    const Device device = DevicePreset(name);
    EXPECT_FALSE(device.silicon.empty()) << name;
    EXPECT_FALSE(device.source.empty()) << name;
    EXPECT_FALSE(device.peak.empty()) << name;
    EXPECT_GT(device.memory.value(), 30 * kGiB) << name;
    EXPECT_GT(device.memory_bandwidth.value(), 5e11) << name;
    EXPECT_GT(device.host_link.value(), 1e10) << name;
    EXPECT_GT(device.host_memory.value(), 0) << name;
    EXPECT_GT(device.compute_units, 0) << name;
    const DeviceFile& file = NeedDeviceFile(name, {});
    EXPECT_GT(file.per_node, 0) << name;
    EXPECT_EQ(file.levels.back().size, 0) << name << ": the last level holds all devices";
  }
}

TEST(DevicePresets, AliasesNameTheSameDevice) {
  EXPECT_EQ(DevicePreset("a100-sxm").name, "a100-80");
  EXPECT_EQ(DevicePreset("A2").name, "ascend-910b");
  EXPECT_EQ(DevicePreset("a3").name, "ascend-910c");
  EXPECT_EQ(DevicePreset("h800").silicon, "h100");
}

TEST(DevicePresets, AnUnknownNameIsRefusedWithTheNearest) {
  const Fault fault = FaultOf([] { DevicePreset("a100-8", {"job", 2, 3}); });
  EXPECT_EQ(fault.code, ErrorCode::kBadInput);
  EXPECT_THAT(fault.what,
              HasSubstr("job:2:3: 'a100-8' is no device preset; did you mean 'a100-80'?"));
}

TEST(ClusterOf, EndsAtTheDevicesThereAre) {
  const Cluster two = ClusterOf(DevicePreset("h100-sxm"), 64, 0);
  EXPECT_EQ(two.per_node, 8);
  ASSERT_EQ(two.levels.size(), 2u);
  EXPECT_EQ(two.levels[0].size, 8);
  EXPECT_EQ(two.levels[1].size, 64);
  const Cluster one = ClusterOf(DevicePreset("h100-sxm"), 4, 0);
  EXPECT_EQ(one.per_node, 4);
  ASSERT_EQ(one.levels.size(), 1u);
  EXPECT_EQ(one.levels[0].size, 4);
  const Cluster rack = ClusterOf(DevicePreset("gb200"), 64, 0);
  EXPECT_EQ(rack.per_node, 4);
  EXPECT_EQ(rack.levels.size(), 1u);
}

TEST(ClusterOf, EveryPresetOfAClusterIsReadable) {
  for (const char* name : {"dgx-a100", "dgx-h100", "dgx-b200", "gb200-nvl72", "jean-zay-a100",
                           "a100-4x100g", "atlas-900-a2", "cloudmatrix-384"}) {
    const Node node = ParseDocument("{preset: " + std::string(name) + ", devices: 1536}",
                                    Language::kYaml, "cluster");
    const Cluster cluster = ReadCluster(node);
    EXPECT_EQ(cluster.levels.size(), 2u) << name;
    EXPECT_EQ(cluster.levels.back().size, 1536) << name;
  }
}

}  // namespace
}  // namespace restow
