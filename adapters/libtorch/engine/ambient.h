// What surrounds a forward and decides its numbers: random states, autocast, defaults.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace restow::libtorch {

class Ambient {
 public:
  // Of this thread, now. `devices`: whose random states count, besides the CPU's; none of them
  // without `random`.
  Ambient(const std::vector<c10::Device>& devices, bool random);

 private:
  friend class AmbientScope;
  struct Autocast {
    c10::DeviceType type;
    bool enabled;
    at::ScalarType dtype;
  };
  struct Random {
    c10::Device device;
    at::Tensor state;
  };
  void Restore() const;

  std::vector<Random> random_;
  std::vector<Autocast> autocast_;
  bool autocast_cache_ = true;
  caffe2::TypeMeta default_dtype_;
  bool deterministic_ = false, deterministic_warns_ = false;
};

// The surroundings of a forward for a scope; then those from before, random states included.
class AmbientScope {
 public:
  explicit AmbientScope(const Ambient& forward);
  ~AmbientScope();
  AmbientScope(const AmbientScope&) = delete;
  AmbientScope& operator=(const AmbientScope&) = delete;

 private:
  Ambient before_;
};

// The accelerator's current device and those of `tensors`, each once, without the CPU.
std::vector<c10::Device> DevicesOf(const std::vector<at::Tensor>& tensors);

}  // namespace restow::libtorch
