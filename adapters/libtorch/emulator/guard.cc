// Streams, events and the current device, as torch asks for them.
#include "emulator/guard.h"

#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>

#include "emulator/memory.h"

namespace restow::emulator {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

thread_local int current_device = 0;
thread_local std::array<int, kDevices> current_streams{};

int IndexOf(Device device) { return device.has_index() ? device.index() : current_device; }

Stream ToStream(StreamName name) {
  return Stream(Stream::UNSAFE,
                Device(DeviceType::PrivateUse1, static_cast<DeviceIndex>(name.device)),
                name.stream);
}

StreamName NameOf(const Stream& stream) {
  return {stream.device_index(), static_cast<int>(stream.id())};
}

Event& EventAt(void* event) { return *static_cast<Event*>(event); }

struct Guard final : c10::impl::DeviceGuardImplInterface {
  DeviceType type() const override { return DeviceType::PrivateUse1; }

  Device getDevice() const override {
    return {DeviceType::PrivateUse1, static_cast<DeviceIndex>(current_device)};
  }
  void setDevice(Device device) const override {
    TORCH_CHECK(device.type() == DeviceType::PrivateUse1, "expected an emu device, got ", device);
    SetCurrentDevice(device.index());
  }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.index() >= 0 && device.index() < kDevices) current_device = device.index();
  }
  Device exchangeDevice(Device device) const override {
    const Device before = getDevice();
    setDevice(device);
    return before;
  }
  DeviceIndex deviceCount() const noexcept override {
    return static_cast<DeviceIndex>(CurrentOptions().devices);
  }
  c10::DeviceCapability getDeviceCapability(Device /*device*/) const override { return {}; }

  Stream getStream(Device device) const override {
    return ToStream(CurrentStream(IndexOf(device)));
  }
  Stream getDefaultStream(Device device) const override { return ToStream({IndexOf(device), 0}); }
  Stream getStreamFromGlobalPool(Device device, bool /*high_priority*/) const override {
    return getNewStream(device);
  }
  Stream getNewStream(Device device, int /*priority*/ = 0) const override {
    return ToStream({IndexOf(device), NewStream(IndexOf(device))});
  }
  Stream exchangeStream(Stream stream) const override {
    const Stream before = getStream(stream.device());
    current_streams.at(stream.device_index()) = static_cast<int>(stream.id());
    return before;
  }
  void* getStreamNativeHandle(const Stream stream) const override {
    return &StreamOf(TheMachine(), stream.device_index(), static_cast<int>(stream.id()));
  }
  bool queryStream(const Stream& stream) const override { return QueryStream(NameOf(stream)); }
  void synchronizeStream(const Stream& stream) const override { SyncStream(NameOf(stream)); }
  void synchronizeDevice(const DeviceIndex device) const override {
    SyncDevice(device < 0 ? current_device : device);
  }

  void record(void** event, const Stream& stream, const DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) *event = new Event;
    RecordEvent(EventAt(*event), NameOf(stream));
  }
  void block(void* event, const Stream& stream) const override {
    if (event != nullptr) WaitEvent(EventAt(event), NameOf(stream));
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || QueryEvent(EventAt(event));
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) SyncEvent(EventAt(event));
  }
  void destroyEvent(void* event, const DeviceIndex /*device*/) const noexcept override {
    delete static_cast<Event*>(event);
  }
  double elapsedTime(void* begin, void* end, const DeviceIndex /*device*/) const override {
    TORCH_CHECK(begin != nullptr && end != nullptr,
                "both events must be recorded before the time between them is asked for");
    return SecondsBetween(EventAt(begin), EventAt(end)) * 1e3;
  }

  void recordDataPtrOnStream(const c10::DataPtr& data, const Stream& stream) const override;
};

void Guard::recordDataPtrOnStream(const c10::DataPtr& data, const Stream& stream) const {
  const StreamName name = NameOf(stream);
  ::restow::emulator::RecordStream(data.get(), name.device, name.stream);
}

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

}  // namespace

int CurrentDevice() { return current_device; }

void SetCurrentDevice(int device) {
  const int count = CurrentOptions().devices;
  TORCH_CHECK(device >= 0 && device < count, "emu:", device, " does not exist; there are ", count,
              " devices");
  current_device = device;
}

StreamName CurrentStream(int device) { return {device, current_streams.at(device)}; }

}  // namespace restow::emulator
