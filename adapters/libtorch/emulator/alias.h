// Device tensors as CPU tensors over the same bytes, and back.
#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <vector>

#include "emulator/guard.h"

namespace restow::emulator {

// The bytes that `tensor` touches: exact runs for up to some thousand, else from first to last.
Use UseOf(const at::Tensor& tensor, bool read, bool write);

bool IsEmu(const at::Tensor& tensor);

// The tensors of one operator call. Tensors that share a storage share it on the other side too.
class AliasMap {
 public:
  // A CPU tensor over the bytes of `tensor` (an emu tensor, or one in pinned memory). It keeps the
  // block's memory alive, not the tensor: freeing the tensor early shows.
  at::Tensor ToCpu(const at::Tensor& tensor);
  // The device tensor of `cpu`: a view when it lies in the storage of an alias, else new memory
  // that takes over its storage, written by `made`.
  at::Tensor ToEmu(const at::Tensor& cpu, int device, OperatorRun* run);
  // After an operator changed `cpu`, the alias of `tensor`: the same sizes, and the same memory
  // if it was resized.
  void Update(const at::Tensor& tensor, const at::Tensor& cpu, OperatorRun* run);

 private:
  c10::Storage CpuStorage(const c10::Storage& storage);
  c10::Storage EmuStorage(const c10::Storage& cpu, int device, OperatorRun* run);

  std::unordered_map<const c10::StorageImpl*, c10::Storage> to_cpu_;
  std::unordered_map<const c10::StorageImpl*, c10::Storage> to_emu_;
};

}  // namespace restow::emulator
