// A table of C callbacks, seen as a Device.
#pragma once

#include <memory>

#include "restow/swap/c_api.h"
#include "restow/swap/device.h"

namespace restow::swap {

// What a callback that failed becomes.
struct CallbackFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Errors: usage, for a table that lacks a callback it must have.
std::shared_ptr<Device> MakeCallbackDevice(const restow_device_ops& ops);

// Device memory around a handle of the caller's, of the device that MakeCallbackDevice made.
// Retains it.
DeviceBuffer AdoptHandle(Device& device, void* memory, std::size_t bytes);
// The handle behind such memory.
void* HandleOf(DeviceMemory& memory);

}  // namespace restow::swap
