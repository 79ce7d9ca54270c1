// What every `Device` must do, run on each implementation: INSTANTIATE_TEST_SUITE_P(Name,
// DeviceConformance, testing::Values(factory)) in a test beside it, this file's .cc linked in.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "restow/swap/device.h"

namespace restow::swap {

// A device, and the few things that a test needs and the seam does not have.
class DeviceUnderTest {
 public:
  virtual ~DeviceUnderTest() = default;
  virtual std::shared_ptr<Device> device() = 0;
  // Memory on the current stream, which that stream fills with the pattern of `seed`, slowly
  // enough that a copy which does not wait for it gets other bytes, where the device can do that.
  virtual DeviceBuffer Make(std::size_t bytes, std::uint64_t seed) = 0;
  // Does the current stream, behind what it waits for, find the pattern there?
  virtual bool Holds(DeviceMemory& memory, std::size_t offset, std::size_t bytes,
                     std::uint64_t seed, std::size_t skip) = 0;
  // What the device itself found wrong; empty when it is sound.
  virtual std::string Errors() { return {}; }
};

struct DeviceFactory {
  std::string name;
  std::function<std::unique_ptr<DeviceUnderTest>()> make;
};

class DeviceConformance : public testing::TestWithParam<DeviceFactory> {
 protected:
  DeviceConformance() : under_test(GetParam().make()), device(under_test->device()) {}
  ~DeviceConformance() override { EXPECT_EQ(under_test->Errors(), ""); }

  std::unique_ptr<DeviceUnderTest> under_test;
  std::shared_ptr<Device> device;
};

inline std::string NameOf(const testing::TestParamInfo<DeviceFactory>& info) {
  return info.param.name;
}

}  // namespace restow::swap
