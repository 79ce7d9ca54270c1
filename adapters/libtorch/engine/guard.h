// Notices that a saved tensor was changed in place. With hooks set, torch's own check is off.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "engine/engines.h"

namespace restow::libtorch {

class VersionGuard {
 public:
  // `place`: names the region in messages; must outlive the guard.
  VersionGuard(const at::Tensor& tensor, const std::string& place);

  // Errors: ModifiedInPlace, naming who saved the tensor, what it is and, where it still can be
  // known, who changed it; kUsage in a process that was forked after the save.
  void Check() const;

 private:
  [[noreturn]] void Complain() const;

  c10::VariableVersion counter_;
  std::uint32_t saved_ = 0;
  std::uint32_t generation_ = ProcessGeneration();
  c10::weak_intrusive_ptr<c10::TensorImpl> original_;
  const std::string* place_;
};

// "[4, 8]".
std::string SizesText(c10::IntArrayRef sizes);
// "Float[4, 8]".
std::string Describe(const at::Tensor& tensor);
// The name of the node that is unpacking, without the number of its kind: "MulBackward0"; empty
// outside backward.
std::string CurrentNodeName();

}  // namespace restow::libtorch
