#include "engine/guard.h"

#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "engine/errors.h"

namespace restow::libtorch {

VersionGuard::VersionGuard(const at::Tensor& tensor, const std::string& place)
    : counter_(torch::autograd::impl::version_counter(tensor)),
      saved_(counter_.enabled() ? counter_.current_version() : 0),
      original_(tensor.getIntrusivePtr()),
      place_(&place) {}

void VersionGuard::Check() const {
  if (generation_ != ProcessGeneration()) {
    ThrowUsage(
        "backward of a graph whose forward ran before fork(): what it saved belongs to the "
        "parent process; run the forward in the child");
  }
  if (counter_.enabled() && counter_.current_version() != saved_) Complain();
}

void VersionGuard::Complain() const {
  const std::string saver = CurrentNodeName();
  std::string what = "tensor", changer;
  if (auto impl = original_.lock()) {
    const at::Tensor tensor(std::move(impl));
    what = Describe(tensor);
    if (tensor.grad_fn()) changer = tensor.grad_fn()->name();
  }
  std::string message = "a " + what + " saved" + (saver.empty() ? "" : " for " + saver) +
                        " in region '" + *place_ + "' was changed in place afterwards" +
                        (changer.empty() || changer == saver ? "" : " by " + changer) +
                        ": it is at version " + std::to_string(counter_.current_version()) +
                        ", saved at version " + std::to_string(saved_) +
                        ". Change a clone of it, or change it before it is used";
  throw ModifiedInPlace(message);
}

std::string SizesText(c10::IntArrayRef sizes) {
  std::string text = "[";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  }
  return text + "]";
}

std::string Describe(const at::Tensor& tensor) {
  return c10::toString(tensor.scalar_type()) + SizesText(tensor.sizes());
}

std::string CurrentNodeName() {
  const auto node = torch::autograd::get_current_node();
  return node ? node->name() : std::string();
}

}  // namespace restow::libtorch
