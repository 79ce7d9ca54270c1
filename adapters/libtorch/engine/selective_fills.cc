// How the saved tensors of an operator that is kept are come by when it is not run again.
#include <algorithm>
#include <optional>
#include <vector>

#include "engine/selective.h"
#include "engine/storage.h"

namespace restow::libtorch {
namespace {

// Do elements of both mean the same, read from the same memory?
bool SameMemory(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.has_storage() && b.has_storage() &&
         a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl() &&
         a.scalar_type() == b.scalar_type() && a.is_conj() == b.is_conj() &&
         a.is_neg() == b.is_neg();
}

bool SameView(const at::Tensor& a, const at::Tensor& b) {
  return SameMemory(a, b) && a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

// From the first to the last element, in elements of the storage.
std::int64_t LastOf(const at::Tensor& tensor) {
  std::int64_t last = tensor.storage_offset();
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return last;
}

// Does `view` lie in what `base` spans?
bool LiesIn(const at::Tensor& view, const at::Tensor& base) {
  const auto plain = [](const at::Tensor& tensor) {
    const at::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    return !impl.is_python_dispatch() && !tensor.is_nested() && !impl.has_symbolic_sizes_strides();
  };
  return SameMemory(view, base) && plain(view) && plain(base) && view.numel() > 0 &&
         base.numel() > 0 && view.storage_offset() >= base.storage_offset() &&
         LastOf(view) <= LastOf(base);
}

}  // namespace

Selection::Layout Selection::LayoutOf(const at::Tensor& tensor) {
  return {Sizes(tensor.sizes()), Sizes(tensor.strides()), tensor.storage_offset()};
}

Selection::Fill Selection::FillOf(const at::Tensor& saved, const std::vector<at::Tensor>& arguments,
                                  const std::vector<at::Tensor>& results) {
  const auto find = [&saved](const std::vector<at::Tensor>& in, auto is) -> std::size_t {
    const auto fits = [&](const at::Tensor& one) { return is(saved, one); };
    return static_cast<std::size_t>(std::find_if(in.begin(), in.end(), fits) - in.begin());
  };
  Fill fill;
  if (fill.number = find(results, &SameView); fill.number < results.size()) {
    fill.kind = Fill::kResult;
  } else if (fill.number = find(arguments, &SameView); fill.number < arguments.size()) {
    fill.kind = Fill::kArgument;
  } else if (fill.number = find(arguments, &LiesIn); fill.number < arguments.size()) {
    fill.kind = Fill::kView;
    fill.argument = LayoutOf(arguments[fill.number]);
    fill.view = LayoutOf(saved);
  } else {
    fill.own = Hold(saved);
  }
  return fill;
}

// None where the argument lies otherwise than in the forward: the operator is run again then.
std::optional<at::Tensor> Selection::Filled(const Fill& fill,
                                            const std::vector<at::Tensor>& arguments,
                                            const std::vector<c10::IValue>& results) {
  if (fill.kind == Fill::kResult) return results.at(fill.number).toTensor();
  if (fill.kind == Fill::kOwn) return fill.own.Get();
  const at::Tensor& argument = arguments.at(fill.number);
  if (fill.kind == Fill::kArgument) return argument;
  const bool same = argument.has_storage() && argument.sizes() == fill.argument.sizes &&
                    argument.strides() == fill.argument.strides;
  if (!same) return std::nullopt;
  at::Tensor view = AliasOf(argument);
  at::TensorImpl* const impl = view.unsafeGetTensorImpl();
  impl->set_allow_tensor_metadata_change(true);
  impl->set_sizes_and_strides(fill.view.sizes, fill.view.strides,
                              argument.storage_offset() + fill.view.offset - fill.argument.offset);
  return view;
}

}  // namespace restow::libtorch
