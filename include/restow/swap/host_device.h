// A device whose memory is host memory and whose streams are threads: the real device of a job on
// CPUs, and the one that ThreadSanitizer can look into.
//
// Stream 0 is the calling thread: work on it has happened when the call returns, and a wait on it
// blocks. Copy streams are threads that run memcpy.
#pragma once

#include <functional>
#include <memory>

#include "restow/swap/device.h"

namespace restow::swap {

class HostDevice : public Device {
 public:
  // A further stream, with a thread of its own, for compute in tests.
  virtual Stream NewStream() = 0;
  // Queues `work` on `stream`; runs it at once on stream 0.
  virtual void Run(Stream stream, std::function<void()> work) = 0;
  // Makes `stream` the calling thread's current one.
  virtual void SetCurrentStream(Stream stream) = 0;
  // Device memory around bytes that belong to `owner`, which is held as long as the memory.
  virtual DeviceBuffer Wrap(void* data, std::size_t bytes, std::shared_ptr<void> owner) = 0;
};

// Threads: see Device. Outlives every stream's work: the last owner waits for the threads.
std::shared_ptr<HostDevice> MakeHostDevice();

}  // namespace restow::swap
