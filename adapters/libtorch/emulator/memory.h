// Device memory and pinned host memory: blocks, capacity, poison.
//
// Every allocation is fresh memory filled with poison, and a freed block is poisoned: no program
// that reads what it has not written, or what it has given up, gets away with it because the bytes
// happened to be right. A block may be freed while work on its home stream still uses it, as with
// caching allocators; other streams' work must be ordered before the free or recorded.
#pragma once

#include <memory>
#include <stdexcept>

#include "emulator/machine.h"

namespace restow::emulator {

// NaN in every floating-point type, -1 in every signed integer.
inline constexpr unsigned char kPoison = 0xFF;

// `what()` has the figures a user needs, as torch words them.
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Fresh device memory on `stream` of `device`, filled with poison. 0 bytes: null.
// Errors: OutOfMemory, after waiting for blocks that recorded streams still hold.
void* Allocate(int device, int stream, std::uint64_t bytes);

// Makes memory that an operator filled (host memory of `bytes`, kept alive by `memory`) device
// memory. `maker` and `epoch`: who wrote it.
void Adopt(int device, int stream, void* data, std::uint64_t bytes, std::shared_ptr<void> memory,
           const Access& made);

// Never throws; a conflict is reported as a race.
void Free(void* data) noexcept;

// Until the work that `stream` has when the block is freed is done, the block is not reused.
void RecordStream(const void* data, int device, int stream);

// Pinned host memory. Errors: OutOfMemory beyond Options::pinned_bytes.
void* AllocatePinned(std::uint64_t bytes);
void FreePinned(void* data) noexcept;
bool IsPinned(const void* data);
// As RecordStream, for the pinned block that starts at `data`; false when there is none.
bool RecordPinned(const void* data, int device, int stream);

// The device that the bytes at `data` belong to; the first one when they are not the emulator's.
int DeviceOf(const void* data);

// Names the elements that the block at `data` holds, for Options::opaque.
void SetElements(const void* data, const char* dtype);

// What keeps the bytes at `data` alive, freed or not; null when they are not the emulator's.
std::shared_ptr<void> Hold(const void* data);

// --- with the lock held ---

// The live block that `address` lies in, or null.
std::shared_ptr<Block> FindLive(Machine& m, std::uintptr_t address);
// The same among blocks freed not long ago.
std::shared_ptr<Block> FindFreed(Machine& m, std::uintptr_t address);
// Gives back the bytes of freed blocks that recorded streams have finished with by now.
void ReleaseDeferred(Machine& m, int device);
// A queued task is done with the block.
void Unpin(Block& block);

}  // namespace restow::emulator
