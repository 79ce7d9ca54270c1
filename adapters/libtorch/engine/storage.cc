#include "engine/storage.h"

#include <ATen/Functions.h>
#include <c10/core/StorageImpl.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <mutex>
#include <unordered_map>

#include "engine/compat.h"
#include "engine/host.h"
#include "engine/internal_ops.h"

namespace restow::libtorch {
namespace {

using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;

// A weak reference keeps the address from being given to another storage.
struct Parameters {
  std::mutex mutex;
  std::unordered_map<const c10::StorageImpl*, Weak> storages;
  std::size_t purge_at = 1024;
};

Parameters& TheParameters() {
  static auto* const parameters = new Parameters;
  return *parameters;
}

void Purge(Parameters& parameters) {
  std::erase_if(parameters.storages, [](const auto& entry) { return entry.second.expired(); });
  parameters.purge_at = std::max<std::size_t>(1024, 2 * parameters.storages.size());
}

// A leaf of the class of parameters, also where nobody told us of its module.
bool IsParameter(const at::Tensor& tensor) {
  const Host& host = TheHost();
  if (host.is_parameter == nullptr || !host.is_parameter(*tensor.unsafeGetTensorImpl())) {
    return false;
  }
  RememberParameter(tensor);
  return true;
}

// What autocast makes of a weight: the same sizes in another type, one step from the leaf.
bool IsCastOfParameter(const at::Tensor& tensor) {
  const auto& function = tensor.grad_fn();
  if (!function || function->num_outputs() != 1) return false;
  const auto* leaf =
      dynamic_cast<torch::autograd::AccumulateGrad*>(function->next_edge(0).function.get());
  if (leaf == nullptr) return false;
  const at::Tensor& source = leaf->variable;
  return source.defined() && source.scalar_type() != tensor.scalar_type() &&
         source.sizes() == tensor.sizes() && source.has_storage() &&
         (IsParameter(source) || IsParameterStorage(source.storage().unsafeGetStorageImpl()));
}

bool OfParameter(const at::Tensor& tensor) {
  if (IsParameterStorage(tensor.storage().unsafeGetStorageImpl())) return true;
  if (!tensor.is_view()) return IsParameter(tensor) || IsCastOfParameter(tensor);
  const at::TensorBase& owner = tensor._base();
  const at::Tensor base(owner);
  return IsParameter(base) || IsCastOfParameter(base);
}

}  // namespace

const char* Sentence(Standing standing) {
  switch (standing) {
    case Standing::kMovable:
      return "movable";
    case Standing::kParameter:
      return "a parameter or buffer, or a view or cast of one";
    case Standing::kEmpty:
      return "no bytes";
    case Standing::kOpaque:
      return "a kind of tensor that is left alone";
  }
  return "";
}

void RememberParameter(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  Parameters& parameters = TheParameters();
  const std::lock_guard<std::mutex> lock(parameters.mutex);
  c10::StorageImpl* const impl = tensor.storage().unsafeGetStorageImpl();
  if (parameters.storages.contains(impl)) return;
  if (parameters.storages.size() >= parameters.purge_at) Purge(parameters);
  parameters.storages.emplace(impl, tensor.storage().getWeakStorageImpl());
}

bool IsParameterStorage(const c10::StorageImpl* storage) {
  Parameters& parameters = TheParameters();
  const std::lock_guard<std::mutex> lock(parameters.mutex);
  return parameters.storages.contains(storage);
}

Standing StandingOf(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const bool plain = !impl.is_python_dispatch() && tensor.layout() == at::kStrided &&
                     !tensor.is_nested() && !tensor.is_meta() && impl.has_storage() &&
                     !tensor.is_quantized() && !tensor.is_conj() && !tensor.is_neg() &&
                     !tensor._is_zerotensor() && !impl.has_symbolic_sizes_strides();
  if (!plain) return Standing::kOpaque;
  if (tensor.numel() == 0 || tensor.storage().nbytes() == 0) return Standing::kEmpty;
  return OfParameter(tensor) ? Standing::kParameter : Standing::kMovable;
}

Span SpanOf(const at::Tensor& tensor) {
  const std::size_t whole = tensor.storage().nbytes();
  const std::size_t item = tensor.element_size();
  std::size_t last = 0;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    last += static_cast<std::size_t>((tensor.size(i) - 1) * tensor.stride(i));
  }
  const std::size_t first = static_cast<std::size_t>(tensor.storage_offset()) * item;
  const std::size_t bytes = (last + 1) * item;
  if (bytes >= whole / 4) return {0, whole};
  return {first, bytes};
}

at::Tensor TensorOver(const c10::Storage& storage, at::ScalarType dtype, c10::IntArrayRef sizes,
                      c10::IntArrayRef strides, std::int64_t offset) {
  const c10::Device device = storage.device();
  if (c10::GetStorageImplCreate(device.type()) != nullptr) {
    // The backend has classes of its own; only its operators make the right ones.
    const InternalOps internal;
    return at::empty({0}, at::TensorOptions().dtype(dtype).device(device))
        .set_(storage, offset, sizes, strides);
  }
  const auto key = c10::computeDispatchKey(dtype, c10::kStrided, device);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

std::uint32_t VersionOf(const at::Tensor& tensor) {
  const c10::VariableVersion& version = torch::autograd::impl::version_counter(tensor);
  return version.enabled() ? version.current_version() : 0;
}

at::Tensor AliasOf(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (impl.is_python_dispatch() || tensor.is_nested()) return tensor.detach();
  const InternalOps internal;  // else a dispatch mode in Python would be asked to detach
  return at::Tensor(impl.shallow_copy_and_detach(torch::autograd::impl::version_counter(tensor),
                                                 /*allow_tensor_metadata_change=*/true));
}

}  // namespace restow::libtorch
