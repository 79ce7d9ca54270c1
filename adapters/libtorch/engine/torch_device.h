// Torch's devices as the engine's core sees them, over interfaces that every backend has.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <memory>
#include <optional>
#include <string>

#include "restow/swap/device.h"

namespace restow::libtorch {

// A reference to a storage.
class TorchMemory final : public swap::DeviceMemory {
 public:
  // `allocated_on`: the stream in whose order the memory is freed, where it is known.
  explicit TorchMemory(c10::Storage storage, std::optional<swap::Stream> allocated_on = {})
      : storage_(std::move(storage)), allocated_on_(allocated_on) {}

  const c10::Storage& storage() const { return storage_; }
  std::size_t bytes() const noexcept override { return storage_.nbytes(); }
  // Of memory from elsewhere the allocator is told that `stream` uses it: then it is freed in that
  // stream's order too, whichever stream it was allocated on.
  bool FreesInOrderOf(swap::Stream stream) const noexcept override;
  std::shared_ptr<const swap::StorageWatch> Watch() const override;

 private:
  c10::Storage storage_;
  std::optional<swap::Stream> allocated_on_;
};

// What torch's backend can do, asked once per device.
struct TorchDevice : swap::Device {
  // Empty: bytes can be copied. Else why not: tensors of this device stay where they are.
  virtual const std::string& obstacle() const noexcept = 0;
};

// An accelerator of any backend: its streams, events, allocator and pinned memory.
std::shared_ptr<TorchDevice> OpenAccelerator(c10::Device device);
// CPU tensors: memory that files are written from; copies wait.
std::shared_ptr<TorchDevice> OpenCpu();

}  // namespace restow::libtorch
