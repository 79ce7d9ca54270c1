// What is done with a tensor that autograd saves: a provider packs it into a slot, the slot gives
// it back. Regions and checkpoints are providers.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace restow::libtorch {

// One saved tensor. Unpack may be called never, once or many times, on any thread; the destructor
// is the only sign that it will not be called again, and must not wait.
class SavedSlot {
 public:
  virtual ~SavedSlot() = default;
  virtual at::Tensor Unpack() = 0;
};

class Provider : public std::enable_shared_from_this<Provider> {
 public:
  virtual ~Provider() = default;
  // `tensor` may be an output of the node that is being made: it must not be kept itself, or node
  // and tensor would keep each other alive. Threads: any.
  virtual std::shared_ptr<SavedSlot> Pack(const at::Tensor& tensor) = 0;
};

using ProviderPtr = std::shared_ptr<Provider>;

}  // namespace restow::libtorch
