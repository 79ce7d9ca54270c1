#include "emulator/alias.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "emulator/allocators.h"
#include "emulator/memory.h"

namespace restow::emulator {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::Storage;

// Beyond this many runs of bytes a tensor counts as all from its first byte to its last.
constexpr std::int64_t kMostRuns = 4096;

struct Dimension {
  std::int64_t size;
  std::int64_t stride;
};

// The dimensions that make a difference, widest stride first.
std::vector<Dimension> Dimensions(const Tensor& tensor) {
  std::vector<Dimension> dimensions;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) > 1 && tensor.stride(i) != 0) {
      dimensions.push_back({tensor.size(i), tensor.stride(i)});
    }
  }
  std::stable_sort(dimensions.begin(), dimensions.end(),
                   [](const Dimension& a, const Dimension& b) { return a.stride > b.stride; });
  return dimensions;
}

// Elements of one contiguous run; dimensions inside it are taken off the end.
std::int64_t TakeRun(std::vector<Dimension>& dimensions) {
  std::int64_t run = 1;
  while (!dimensions.empty() && dimensions.back().stride <= run) {
    run = dimensions.back().stride * (dimensions.back().size - 1) + run;
    dimensions.pop_back();
  }
  return run;
}

std::int64_t Span(const std::vector<Dimension>& dimensions, std::int64_t run) {
  return std::accumulate(
      dimensions.begin(), dimensions.end(), run,
      [](std::int64_t sum, const Dimension& d) { return sum + d.stride * (d.size - 1); });
}

// Starts of the runs, in elements.
std::vector<std::int64_t> Starts(const std::vector<Dimension>& dimensions) {
  std::vector<std::int64_t> starts{0};
  for (const Dimension& dimension : dimensions) {
    std::vector<std::int64_t> next;
    for (const std::int64_t start : starts) {
      for (std::int64_t i = 0; i < dimension.size; ++i) {
        next.push_back(start + i * dimension.stride);
      }
    }
    starts = std::move(next);
  }
  return starts;
}

std::vector<ByteRange> RangesOf(const Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  const auto base = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
  const std::uint64_t item = tensor.element_size();
  if (tensor.is_contiguous()) return {{base, base + item * tensor.numel()}};
  std::vector<Dimension> dimensions = Dimensions(tensor);
  const std::int64_t run = TakeRun(dimensions);
  std::int64_t count = 1;
  for (const Dimension& dimension : dimensions) {
    count = std::min(kMostRuns + 1, count * dimension.size);
  }
  if (count > kMostRuns) return {{base, base + item * Span(dimensions, run)}};
  std::vector<ByteRange> ranges;
  for (const std::int64_t start : Starts(dimensions)) {
    ranges.push_back({base + item * start, base + item * (start + run)});
  }
  return ranges;
}

Tensor MakeTensor(const Storage& storage, DispatchKey key, const Tensor& like) {
  Tensor made =
      at::detail::make_tensor<c10::TensorImpl>(Storage(storage), DispatchKeySet(key), like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(),
                                                    like.storage_offset());
  return made;
}

struct Holder {
  std::shared_ptr<void> memory;
};

}  // namespace

Use UseOf(const Tensor& tensor, bool read, bool write) {
  Use use;
  use.ranges = RangesOf(tensor);
  use.read = read;
  use.write = write;
  use.dtype = c10::toString(tensor.scalar_type());
  use.sizes = tensor.sizes().vec();
  return use;
}

bool IsEmu(const Tensor& tensor) { return tensor.defined() && tensor.is_privateuseone(); }

Storage AliasMap::CpuStorage(const Storage& storage) {
  const auto known = to_cpu_.find(storage.unsafeGetStorageImpl());
  if (known != to_cpu_.end()) return known->second;
  void* const data = storage.mutable_data();
  auto* const holder = new Holder{Hold(data)};
  c10::DataPtr pointer(
      data, holder, [](void* context) { delete static_cast<Holder*>(context); },
      c10::DeviceType::CPU);
  Storage cpu(Storage::use_byte_size_t(), storage.nbytes(), std::move(pointer),
              c10::GetAllocator(c10::DeviceType::CPU), /*resizable=*/true);
  to_cpu_.emplace(storage.unsafeGetStorageImpl(), cpu);
  to_emu_.emplace(cpu.unsafeGetStorageImpl(), storage);
  return cpu;
}

Storage AliasMap::EmuStorage(const Storage& cpu, int device, OperatorRun* run) {
  const auto known = to_emu_.find(cpu.unsafeGetStorageImpl());
  if (known != to_emu_.end()) return known->second;
  void* const data = cpu.mutable_data();
  const std::size_t bytes = cpu.nbytes();
  run->AddBytes(bytes);
  std::shared_ptr<void> memory(data, [cpu](void*) {});
  Storage storage(
      Storage::use_byte_size_t(), bytes,
      AdoptData(device, bytes == 0 ? nullptr : data, bytes, std::move(memory), run->output()),
      DeviceAllocator(), /*resizable=*/true);
  to_emu_.emplace(cpu.unsafeGetStorageImpl(), storage);
  return storage;
}

Tensor AliasMap::ToCpu(const Tensor& tensor) {
  Tensor cpu = MakeTensor(CpuStorage(tensor.storage()), DispatchKey::CPU, tensor);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    cpu.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  if (tensor.is_conj()) cpu._set_conj(true);
  if (tensor.is_neg()) cpu._set_neg(true);
  return cpu;
}

Tensor AliasMap::ToEmu(const Tensor& cpu, int device, OperatorRun* run) {
  const bool known = to_emu_.contains(cpu.storage().unsafeGetStorageImpl());
  Tensor emu = MakeTensor(EmuStorage(cpu.storage(), device, run), DispatchKey::PrivateUse1, cpu);
  if (!known) SetElements(emu.storage().data(), c10::toString(emu.scalar_type()));
  return emu;
}

void AliasMap::Update(const Tensor& tensor, const Tensor& cpu, OperatorRun* run) {
  const Storage& storage = tensor.storage();
  if (cpu.storage().data() != storage.data()) {
    const std::size_t bytes = cpu.storage().nbytes();
    std::shared_ptr<void> memory(cpu.storage().mutable_data(), [held = cpu.storage()](void*) {});
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(
        AdoptData(tensor.device().index(), cpu.storage().mutable_data(), bytes, std::move(memory),
                  run->output()));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
    run->AddBytes(bytes);
  }
  if (cpu.sizes() != tensor.sizes() || cpu.strides() != tensor.strides()) {
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(cpu.sizes(), cpu.strides(),
                                                        cpu.storage_offset());
  }
}

}  // namespace restow::emulator
