#include "swap/c_device.h"

#include <chrono>
#include <string>
#include <utility>

#include "restow/base/error.h"

namespace restow::swap {
namespace {

class CallbackDevice;

struct Handle : DeviceMemory {
  Handle(std::shared_ptr<const CallbackDevice> owner, void* handle, std::size_t count, Stream on,
         bool stream_known)
      : device(std::move(owner)), memory(handle), size(count), home(on), home_known(stream_known) {}
  ~Handle() override;
  std::size_t bytes() const noexcept override { return size; }
  bool FreesInOrderOf(Stream stream) const noexcept override;

  std::shared_ptr<const CallbackDevice> device;
  void* memory;
  std::size_t size;
  Stream home;
  bool home_known;
};

struct HandleEvent : Event {
  HandleEvent(std::shared_ptr<const CallbackDevice> owner, void* handle)
      : device(std::move(owner)), event(handle) {}
  ~HandleEvent() override;
  std::shared_ptr<const CallbackDevice> device;
  void* event;
};

void* EventOf(Event& event) { return static_cast<HandleEvent&>(event).event; }

class CallbackDevice : public Device, public std::enable_shared_from_this<CallbackDevice> {
 public:
  explicit CallbackDevice(const restow_device_ops& ops) : ops_(ops) {}

  const restow_device_ops& ops() const { return ops_; }

  Capabilities capabilities() const noexcept override {
    Capabilities can;
    can.pinned_memory = ops_.pinned_memory != 0;
    can.async_copies = ops_.async_copies != 0;
    can.copy_streams = ops_.copy_streams;
    can.host_addressable = ops_.host_address != nullptr;
    can.copies_on_device = ops_.copy_on_device != nullptr;
    return can;
  }
  Stream CurrentStream() override {
    Stream stream;
    Check(ops_.current_stream(ops_.context, &stream.id), "current_stream");
    return stream;
  }
  Stream NewCopyStream(Direction direction) override {
    Stream stream;
    const int inwards = direction == Direction::kIn ? 1 : 0;
    Check(ops_.new_copy_stream(ops_.context, inwards, &stream.id), "new_copy_stream");
    return stream;
  }
  void Synchronize(Stream stream) override {
    Check(ops_.synchronize(ops_.context, stream.id), "synchronize");
  }
  std::unique_ptr<Event> NewEvent() override {
    void* event = nullptr;
    Check(ops_.new_event(ops_.context, &event), "new_event");
    // The pool of events belongs to the device's pool, not to the device: no circle.
    return std::make_unique<HandleEvent>(shared_from_this(), event);
  }
  void Record(Event& event, Stream stream) override {
    Check(ops_.record(ops_.context, EventOf(event), stream.id), "record");
  }
  void StreamWait(Stream stream, Event& event) override {
    Check(ops_.stream_wait(ops_.context, stream.id, EventOf(event)), "stream_wait");
  }
  bool Done(Event& event) override {
    int done = 0;
    Check(ops_.event_done(ops_.context, EventOf(event), &done), "event_done");
    return done != 0;
  }
  void HostWait(Event& event) override {
    Check(ops_.host_wait(ops_.context, EventOf(event)), "host_wait");
  }
  double Now() override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
  }
  DeviceBuffer Allocate(std::size_t bytes, Stream stream) override {
    void* memory = nullptr;
    Check(ops_.allocate(ops_.context, bytes, stream.id, &memory), "allocate");
    return std::make_shared<Handle>(shared_from_this(), memory, bytes, stream, true);
  }
  void NoteUse(DeviceMemory& memory, Stream stream) override {
    if (ops_.note_use == nullptr) return;
    Check(ops_.note_use(ops_.context, HandleOf(memory), stream.id), "note_use");
  }
  void* HostAddress(DeviceMemory& memory) override {
    return ops_.host_address(ops_.context, HandleOf(memory));
  }
  HostMemory AllocateHost(std::size_t bytes, bool pinned) override {
    void* data = nullptr;
    Check(ops_.allocate_host(ops_.context, bytes, pinned ? 1 : 0, &data), "allocate_host");
    return {data, bytes, pinned, nullptr};
  }
  void FreeHost(const HostMemory& memory) noexcept override {
    ops_.free_host(ops_.context, memory.data, memory.bytes, memory.pinned ? 1 : 0);
  }
  void CopyOut(void* to, DeviceMemory& from, std::size_t offset, std::size_t bytes,
               Stream stream) override {
    Check(ops_.copy_out(ops_.context, to, HandleOf(from), offset, bytes, stream.id), "copy_out");
  }
  void CopyIn(DeviceMemory& to, std::size_t offset, const void* from, std::size_t bytes,
              Stream stream) override {
    Check(ops_.copy_in(ops_.context, HandleOf(to), offset, from, bytes, stream.id), "copy_in");
  }
  void CopyOnDevice(DeviceMemory& to, std::size_t to_offset, DeviceMemory& from,
                    std::size_t from_offset, std::size_t bytes, Stream stream) override {
    Check(ops_.copy_on_device(ops_.context, HandleOf(to), to_offset, HandleOf(from), from_offset,
                              bytes, stream.id),
          "copy_on_device");
  }

 private:
  void Check(int code, const char* call) const {
    if (code == 0) return;
    const char* text = ops_.last_error == nullptr ? nullptr : ops_.last_error(ops_.context);
    const std::string why = text == nullptr ? "code " + std::to_string(code) : std::string(text);
    throw CallbackFailure(std::string("the device's ") + call + " failed: " + why);
  }

  restow_device_ops ops_;
};

Handle::~Handle() { device->ops().release(device->ops().context, memory); }

bool Handle::FreesInOrderOf(Stream stream) const noexcept {
  return home_known && stream == home && device->ops().frees_in_stream_order != 0;
}

HandleEvent::~HandleEvent() { device->ops().free_event(device->ops().context, event); }

}  // namespace

std::shared_ptr<Device> MakeCallbackDevice(const restow_device_ops& ops) {
  const bool complete =
      ops.current_stream != nullptr && ops.synchronize != nullptr && ops.new_event != nullptr &&
      ops.free_event != nullptr && ops.record != nullptr && ops.stream_wait != nullptr &&
      ops.event_done != nullptr && ops.host_wait != nullptr && ops.allocate != nullptr &&
      ops.retain != nullptr && ops.release != nullptr && ops.allocate_host != nullptr &&
      ops.free_host != nullptr && ops.copy_out != nullptr && ops.copy_in != nullptr;
  if (!complete) {
    ThrowUsage(
        "the table of device callbacks lacks one; only note_use, host_address, last_error and "
        "copy_on_device may be NULL");
  }
  if (ops.copy_streams < 0 || ops.copy_streams > 2) {
    ThrowUsage("copy_streams is " + std::to_string(ops.copy_streams) + "; 0, 1 and 2 are allowed");
  }
  if (ops.copy_streams > 0 && ops.new_copy_stream == nullptr) {
    ThrowUsage("copy_streams is not 0, so new_copy_stream may not be NULL");
  }
  return std::make_shared<CallbackDevice>(ops);
}

DeviceBuffer AdoptHandle(Device& device, void* memory, std::size_t bytes) {
  auto& mine = static_cast<CallbackDevice&>(device);
  mine.ops().retain(mine.ops().context, memory);
  // The caller's storage may have been allocated on any stream: the engine waits before it goes.
  return std::make_shared<Handle>(mine.shared_from_this(), memory, bytes, Stream(), false);
}

void* HandleOf(DeviceMemory& memory) { return static_cast<Handle&>(memory).memory; }

}  // namespace restow::swap
