// The calling thread's current device and streams.
#pragma once

#include "emulator/work.h"

namespace restow::emulator {

inline constexpr const char* kDeviceName = "emu";

int CurrentDevice();
void SetCurrentDevice(int device);
// The current stream of `device`.
StreamName CurrentStream(int device);

}  // namespace restow::emulator
