// Every operator the device does not implement itself: the CPU's kernel over the device's bytes.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace restow::emulator {

// What a kernel runs under: none of the caller's autograd, modes, autocast or observers see it, as
// none would see a device's kernel.
class KernelGuard {
 public:
  KernelGuard();

 private:
  c10::impl::ExcludeDispatchKeyGuard keys_;
  at::DisableRecordFunctionGuard observers_;
};

void Fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

}  // namespace restow::emulator
