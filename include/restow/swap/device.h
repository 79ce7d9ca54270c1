// The seam between the engine and hardware: everything `swap` knows of a device.
//
// Five nouns. A *stream* is a queue whose work runs in order. An *event* marks a point of a stream;
// another stream, or the host, can wait for it. *Device memory* is held by reference: whoever drops
// the last reference frees it. *Host memory* is where copies go. A *copy* is queued on a stream.
//
// Adapters (torch, the C face) and the devices of this library (fake, host) implement `Device`; the
// conformance suite in src/swap/testing runs on each of them. The engine calls a device from any
// thread, several at once, and never while it holds its own lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace restow::swap {

// A queue of the device; the number means what the device says. Copied freely.
struct Stream {
  std::uint64_t id = 0;
  friend bool operator==(const Stream&, const Stream&) = default;
};

// The device's own event; recorded again and again. Freed only after its last use has finished or
// where the device takes care of that itself.
class Event {
 public:
  virtual ~Event() = default;
};

// Tells whether a storage that the engine has given up is still held by somebody else, and keeps
// its identity (see `Storage` in engine.h) from being given to another storage.
class StorageWatch {
 public:
  virtual ~StorageWatch() = default;
  // Threads: any.
  virtual bool Alive() const noexcept = 0;
};

// One reference to a piece of device memory. The destructor gives the reference up; the memory is
// free when no other holder is left. Destructors must not throw.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  virtual std::size_t bytes() const noexcept = 0;

  // True when memory given up now can only be used again by work queued on `stream` after this
  // moment, as a stream-ordered allocator does for memory that was allocated on that stream. Then
  // the engine may order `stream` behind a copy and give the memory up without waiting for it.
  // False where it is not known: the engine then waits until the copy has finished.
  virtual bool FreesInOrderOf(Stream stream) const noexcept {
    static_cast<void>(stream);
    return false;
  }

  // Asked once per storage that is moved. Null: not known; the storage's identity then counts only
  // while the engine holds the memory.
  virtual std::shared_ptr<const StorageWatch> Watch() const { return nullptr; }
};

using DeviceBuffer = std::shared_ptr<DeviceMemory>;

enum class Direction : std::uint8_t { kOut, kIn };  // device to host, host to device

struct Capabilities {
  bool pinned_memory = true;      // AllocateHost(…, true) can succeed
  bool async_copies = true;       // copies on a stream of their own overlap with compute
  int copy_streams = 2;           // 2: one per direction, 1: shared, 0: the current stream is used
  bool timed_events = false;      // EventSeconds works
  bool copies_on_device = false;  // CopyOnDevice works; without it small tensors are not fused
  bool host_addressable = false;  // HostAddress works: files are written from device memory itself
};

struct HostMemory {
  void* data = nullptr;
  std::size_t bytes = 0;
  bool pinned = false;
  void* token = nullptr;  // the device's own; untouched by the engine
};

// Errors: every call may throw, except where it says noexcept. A call that throws has queued
// nothing, as far as the device can tell; the engine synchronises a stream before it trusts that.
// Threads: any, at once. Calls must not call back into the engine and wait for it.
class Device {
 public:
  virtual ~Device() = default;

  virtual Capabilities capabilities() const noexcept = 0;

  // The calling thread's compute stream, looked up at each use.
  virtual Stream CurrentStream() = 0;
  // Called once per direction and engine, where copy_streams > 0.
  virtual Stream NewCopyStream(Direction direction) = 0;
  // Host waits for all of the stream's work. Used when a call failed, never in a sound step.
  virtual void Synchronize(Stream stream) = 0;

  virtual std::unique_ptr<Event> NewEvent() = 0;
  virtual void Record(Event& event, Stream stream) = 0;
  // Work queued on `stream` from now on runs after what `event` marks at this moment.
  virtual void StreamWait(Stream stream, Event& event) = 0;
  // Has what the event marks finished? Does not wait. Throws when the work failed.
  virtual bool Done(Event& event) = 0;
  // Blocks the calling thread until then. Throws when the work failed.
  virtual void HostWait(Event& event) = 0;
  // Units: seconds on the clock of Now(), at which a finished event was reached.
  // Requires: timed_events, and the event is done.
  virtual double EventSeconds(Event& event) {
    static_cast<void>(event);
    return 0;
  }
  // Units: seconds of the host's clock, from any fixed moment. Recorder and trace use it.
  virtual double Now() = 0;

  // Memory for use on `stream` first. Throws when there is none; the engine then gives up what it
  // holds and asks once more.
  virtual DeviceBuffer Allocate(std::size_t bytes, Stream stream) = 0;
  // `memory` will be used on `stream` too, which is not the one it was allocated for: it must not
  // be used again before that use has finished.
  virtual void NoteUse(DeviceMemory& memory, Stream stream) {
    static_cast<void>(memory), static_cast<void>(stream);
  }
  // Requires: host_addressable. Where the memory's bytes lie for the host, or null.
  virtual void* HostAddress(DeviceMemory& memory) {
    static_cast<void>(memory);
    return nullptr;
  }

  // Throws when there is none, or none that can be pinned. At least 64-byte aligned.
  virtual HostMemory AllocateHost(std::size_t bytes, bool pinned) = 0;
  virtual void FreeHost(const HostMemory& memory) noexcept = 0;

  // Copies `bytes` from `offset` of `from` to `to`, in the stream's order. Returns at once where
  // async_copies. The engine keeps both sides until the copy's event is done.
  virtual void CopyOut(void* to, DeviceMemory& from, std::size_t offset, std::size_t bytes,
                       Stream stream) = 0;
  virtual void CopyIn(DeviceMemory& to, std::size_t offset, const void* from, std::size_t bytes,
                      Stream stream) = 0;
  // One piece of device memory and its place in another.
  struct Piece {
    DeviceMemory* from = nullptr;
    std::size_t offset = 0, bytes = 0;
    std::size_t at = 0;
  };
  // Requires: copies_on_device. Copies all pieces into `to`; a device that can do it in fewer calls
  // than one each overrides it.
  virtual void Gather(DeviceMemory& to, std::span<const Piece> pieces, Stream stream) {
    for (const Piece& piece : pieces) {
      CopyOnDevice(to, piece.at, *piece.from, piece.offset, piece.bytes, stream);
    }
  }
  // Requires: copies_on_device.
  virtual void CopyOnDevice(DeviceMemory& to, std::size_t to_offset, DeviceMemory& from,
                            std::size_t from_offset, std::size_t bytes, Stream stream) {
    static_cast<void>(to), static_cast<void>(to_offset), static_cast<void>(from);
    static_cast<void>(from_offset), static_cast<void>(bytes), static_cast<void>(stream);
  }
};

}  // namespace restow::swap
