// What a saved tensor is to the engine: whose storage, which part of it, and whether it may move.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstdint>

#include "restow/libtorch.h"

namespace restow::libtorch {

// Why a saved tensor is not the engine's to move; kMovable: it is.
enum class Standing : std::uint8_t {
  kMovable,
  kParameter,  // a parameter or buffer, a view or a cast of one
  kEmpty,
  kOpaque,  // sparse, nested, a tensor subclass, quantised, lazily conjugated or negated, meta, ...
};
const char* Sentence(Standing standing);

// Was it given to RememberParameter (libtorch.h)? A storage once known stays known until it dies.
// Threads: any.
bool IsParameterStorage(const c10::StorageImpl* storage);

// Not counting parameters: could the tensor's bytes be moved at all?
Standing StandingOf(const at::Tensor& tensor);

// The part of its storage that a tensor's elements lie in. Units: bytes.
struct Span {
  std::size_t offset = 0, bytes = 0;
};
// The whole storage, unless the tensor covers less than a quarter of it from first to last byte: so
// that several views saved of one storage travel, and come back, as one.
Span SpanOf(const at::Tensor& tensor);

// A tensor without history over `storage`. Units: elements.
at::Tensor TensorOver(const c10::Storage& storage, at::ScalarType dtype, c10::IntArrayRef sizes,
                      c10::IntArrayRef strides, std::int64_t offset);

// How often the tensor's memory was written through it and its views; 0 where it is not counted.
std::uint32_t VersionOf(const at::Tensor& tensor);

// The same tensor without history, sharing memory and version.
at::Tensor AliasOf(const at::Tensor& tensor);

}  // namespace restow::libtorch
