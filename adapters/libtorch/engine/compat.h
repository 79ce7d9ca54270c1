// Every difference between torch versions that the adapter knows of. It is built for one minor
// version (docs/torch.md) and refuses to load beside another.
#pragma once

#include <c10/core/TensorImpl.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/version.h>

#include <cstring>
#include <string_view>

namespace restow::libtorch {

inline constexpr std::string_view kTorchMinor = "2.13";
static_assert(TORCH_VERSION_MAJOR == 2 && (TORCH_VERSION_MINOR == 13 || TORCH_VERSION_MINOR == 14),
              "the adapter knows torch 2.13 and 2.14");

// 2.13 turned std::shared_ptr<Node> into an intrusive pointer.
using NodePtr = decltype(torch::autograd::Edge::function);

// Tells counters apart. A tensor and its `.data` have two, and a write through one does not show in
// the other.
inline const void* AddressOf(const c10::VariableVersion& version) {
  static_assert(sizeof(version) == sizeof(void*), "a version is one pointer to its counter");
  const void* counter = nullptr;
  std::memcpy(&counter, &version, sizeof(counter));
  return counter;
}

inline constexpr std::string_view kHooksInfoName = "restow::saved tensor hooks";
inline const c10::DebugInfoKind kHooksInfo(&kHooksInfoName);

}  // namespace restow::libtorch
