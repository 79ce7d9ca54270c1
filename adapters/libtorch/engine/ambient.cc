#include "engine/ambient.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <mutex>

namespace restow::libtorch {
namespace {

at::Tensor StateOf(const c10::Device& device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void SetState(const c10::Device& device, const at::Tensor& state) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

std::vector<c10::Device> DevicesOf(const auto& random) {
  std::vector<c10::Device> devices;
  for (const auto& one : random) {
    if (!one.device.is_cpu()) devices.push_back(one.device);
  }
  return devices;
}

}  // namespace

Ambient::Ambient(const std::vector<c10::Device>& devices, bool random) {
  if (random) {
    random_.push_back({c10::Device(c10::DeviceType::CPU), StateOf(c10::DeviceType::CPU)});
    for (const c10::Device& device : devices) random_.push_back({device, StateOf(device)});
  }
  std::vector<c10::DeviceType> types{c10::DeviceType::CPU};
  if (const auto accelerator = at::getAccelerator()) types.push_back(*accelerator);
  for (const c10::DeviceType type : types) {
    autocast_.push_back(
        {type, at::autocast::is_autocast_enabled(type), at::autocast::get_autocast_dtype(type)});
  }
  autocast_cache_ = at::autocast::is_autocast_cache_enabled();
  default_dtype_ = c10::get_default_dtype();
  deterministic_ = at::globalContext().deterministicAlgorithms();
  deterministic_warns_ = at::globalContext().deterministicAlgorithmsWarnOnly();
}

void Ambient::Restore() const {
  for (const Random& one : random_) SetState(one.device, one.state);
  for (const Autocast& one : autocast_) {
    at::autocast::set_autocast_enabled(one.type, one.enabled);
    at::autocast::set_autocast_dtype(one.type, one.dtype);
  }
  at::autocast::set_autocast_cache_enabled(autocast_cache_);
  if (c10::get_default_dtype() != default_dtype_) c10::set_default_dtype(default_dtype_);
  auto& context = at::globalContext();
  if (context.deterministicAlgorithms() != deterministic_ ||
      context.deterministicAlgorithmsWarnOnly() != deterministic_warns_) {
    context.setDeterministicAlgorithms(deterministic_, deterministic_warns_);
  }
}

AmbientScope::AmbientScope(const Ambient& forward)
    : before_(DevicesOf(forward.random_), !forward.random_.empty()) {
  at::autocast::increment_nesting();
  forward.Restore();
}

AmbientScope::~AmbientScope() {
  // Casts made here belong to a graph that is thrown away.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  before_.Restore();
}

std::vector<c10::Device> DevicesOf(const std::vector<at::Tensor>& tensors) {
  std::vector<c10::Device> devices;
  const auto add = [&](const c10::Device& device) {
    const bool drawn = !device.is_cpu() && device.type() != c10::DeviceType::Meta;
    if (drawn && std::find(devices.begin(), devices.end(), device) == devices.end()) {
      devices.push_back(device);
    }
  };
  for (const at::Tensor& tensor : tensors) add(tensor.device());
  if (const auto type = at::getAccelerator()) {
    const c10::impl::VirtualGuardImpl impl(*type);
    if (impl.deviceCount() > 0) add(impl.getDevice());
  }
  return devices;
}

}  // namespace restow::libtorch
