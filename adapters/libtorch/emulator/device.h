// The device's random number generators.
#pragma once

#include <ATen/core/Generator.h>

namespace restow::emulator {

const at::Generator& DefaultGenerator(int device);
// The CPU generator behind a device generator; any other generator as it is.
at::Generator CpuGenerator(const at::Generator& generator);

}  // namespace restow::emulator
