// Torch's hooks over a provider, and the stack of providers of programs without Python.
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>

#include "engine/provider.h"

namespace restow::libtorch {

// Hooks for one saved tensor.
std::unique_ptr<torch::autograd::SavedVariableHooks> HooksOf(ProviderPtr provider);

// Without Python: the innermost provider of this thread, or of the forward that this backward
// thread works for; null: none.
ProviderPtr CurrentProvider();
void PushProvider(const ProviderPtr& provider);
void PopProvider();

// Installs an autograd engine that asks CurrentProvider. For programs without Python, before their
// first backward; does nothing the second time, or where Python's engine is installed.
void InstallStandaloneEngine();

}  // namespace restow::libtorch
