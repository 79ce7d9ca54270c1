// An engine on the fake device with a program of layers. Whatever a test asks of it, at its end no
// access was out of order and every byte came back.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "restow/swap/engine.h"
#include "swap/fake/fake_device.h"
#include "swap/testing/program.h"

namespace restow::swap {

inline constexpr std::size_t kUnit = 6400;  // bytes copied in a second

struct Chain {
  explicit Chain(std::vector<Layer> layers, double window_units = 2, bool keep_last = false,
                 std::size_t bytes_per_s = kUnit, int most_ahead = 64) {
    FakeOptions fake;
    fake.out_bytes_per_s = fake.in_bytes_per_s = static_cast<double>(bytes_per_s);
    device = std::make_shared<FakeDevice>(fake);
    options.window = Bytes(static_cast<std::int64_t>(window_units * kUnit));
    options.min_bytes = Bytes(0);
    options.keep_last_region = keep_last;
    options.prefetch_distance = std::min(1, most_ahead);
    options.max_prefetch_distance = most_ahead;
    engine = std::make_unique<Engine>(device, options);
    program = std::make_unique<Program>(device, *engine, std::move(layers));
  }
  ~Chain() {
    EXPECT_THAT(device->errors(), testing::IsEmpty());
    EXPECT_EQ(program->wrong(), 0);
  }
  // The drawing of the n-th step, from 1.
  std::string DrawStep(int n, bool apart = false) {
    for (int i = 1; i < n; ++i) program->Step(apart);
    device->ClearSpans();
    program->Step(apart);
    return "\n" + device->Draw(1);
  }

  std::shared_ptr<FakeDevice> device;
  Options options;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Program> program;
};

}  // namespace restow::swap
