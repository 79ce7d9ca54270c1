// Torch's allocators over the emulator's memory.
#pragma once

#include <c10/core/Allocator.h>

#include <memory>

#include "emulator/history.h"

namespace restow::emulator {

c10::Allocator* DeviceAllocator();
c10::Allocator* PinnedAllocator();

// Host memory that an operator filled, as device memory of `device` on its current stream.
// Errors: c10::OutOfMemoryError.
c10::DataPtr AdoptData(int device, void* data, std::size_t bytes, std::shared_ptr<void> memory,
                       const Access& made);

}  // namespace restow::emulator
