// What torch asks of a backend besides streams and memory: hooks, generators, its name.
#include "emulator/device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <c10/core/Storage.h>

#include <array>
#include <utility>

#include "emulator/allocators.h"
#include "emulator/guard.h"
#include "emulator/memory.h"

namespace restow::emulator {
namespace {

using at::Generator;
using c10::DeviceIndex;
using c10::DeviceType;

// The device's random numbers come from a CPU generator: operators run the CPU's kernels.
struct DeviceGenerator final : c10::GeneratorImpl {
  DeviceGenerator(int device, Generator generator)
      : GeneratorImpl({DeviceType::PrivateUse1, static_cast<DeviceIndex>(device)},
                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        inner(std::move(generator)) {}

  void set_current_seed(std::uint64_t seed) override { inner.set_current_seed(seed); }
  void set_offset(std::uint64_t offset) override { inner.set_offset(offset); }
  std::uint64_t get_offset() const override { return inner.get_offset(); }
  std::uint64_t current_seed() const override { return inner.current_seed(); }
  std::uint64_t seed() override { return inner.seed(); }
  void set_state(const c10::TensorImpl& state) override {
    inner.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return inner.unsafeGetGeneratorImpl()->get_state();
  }

  Generator inner;

 private:
  DeviceGenerator* clone_impl() const override {
    return new DeviceGenerator(device_.index(), inner.clone());
  }
};

Generator NewGenerator(int device) {
  return at::make_generator<DeviceGenerator>(device, at::detail::createCPUGenerator());
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex device) const override { return device >= 0; }
  void init() const override {}
  DeviceIndex deviceCount() const override {
    return static_cast<DeviceIndex>(CurrentOptions().devices);
  }
  void setCurrentDevice(DeviceIndex device) const override { SetCurrentDevice(device); }
  DeviceIndex getCurrentDevice() const override {
    return static_cast<DeviceIndex>(CurrentDevice());
  }
  DeviceIndex exchangeDevice(DeviceIndex device) const override {
    const DeviceIndex before = getCurrentDevice();
    if (device >= 0) SetCurrentDevice(device);
    return before;
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override {
    return exchangeDevice(device);
  }

  bool isPinnedPtr(const void* data) const override { return IsPinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return PinnedAllocator(); }
  at::Device getDeviceFromPtr(void* data) const override {
    return {DeviceType::PrivateUse1, static_cast<DeviceIndex>(DeviceOf(data))};
  }

  const Generator& getDefaultGenerator(DeviceIndex device) const override {
    return DefaultGenerator(device < 0 ? CurrentDevice() : device);
  }
  Generator getNewGenerator(DeviceIndex device) const override {
    return NewGenerator(device < 0 ? CurrentDevice() : device);
  }

  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    const int device = storage.device().index();
    const c10::impl::VirtualGuardImpl guard(DeviceType::PrivateUse1);
    const c10::Device before = guard.exchangeDevice(storage.device());
    { const OperatorRun run(CurrentStream(device), "storage resize", {}); }
    at::native::resize_bytes_cpu(storage.unsafeGetStorageImpl(), bytes);
    guard.setDevice(before);
  }
};

const bool registered = [] {
  c10::register_privateuse1_backend(kDeviceName);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace

const Generator& DefaultGenerator(int device) {
  static auto* const generators =
      new std::array<Generator, kDevices>{NewGenerator(0), NewGenerator(1)};
  return generators->at(device);
}

Generator CpuGenerator(const Generator& generator) {
  if (generator.device().type() != DeviceType::PrivateUse1) return generator;
  return static_cast<DeviceGenerator*>(generator.unsafeGetGeneratorImpl())->inner;
}

}  // namespace restow::emulator
