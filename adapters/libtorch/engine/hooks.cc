#include "engine/hooks.h"

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/autograd/engine.h>

#include <optional>
#include <utility>

#include "engine/compat.h"
#include "engine/host.h"

namespace restow::libtorch {
namespace {

using torch::autograd::Engine;
using torch::autograd::SavedVariableHooks;

Host host;

// Carried by torch from a forward to the threads that run its backward.
struct HooksInfo : c10::DebugInfoBase {
  explicit HooksInfo(ProviderPtr one) : provider(std::move(one)) {}
  ProviderPtr provider;
};

class Hooks final : public SavedVariableHooks {
 public:
  explicit Hooks(ProviderPtr provider) : provider_(std::move(provider)) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    OrHostError([&] { slot_ = provider_->Pack(tensor); });
    provider_.reset();
  }
  at::Tensor call_unpack_hook() override {
    return OrHostError([&] { return slot_->Unpack(); });
  }
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data()
      const override {
    if (host.unpack_data == nullptr) return SavedVariableHooks::retrieve_unpack_hook_data();
    return host.unpack_data(slot_);
  }

 private:
  ProviderPtr provider_;
  std::shared_ptr<SavedSlot> slot_;
};

// An engine of its own: threads and all, so it is made before the first backward and never ends.
struct StandaloneEngine final : Engine {
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (!at::SavedTensorDefaultHooks::is_enabled() ||
        at::SavedTensorDefaultHooks::get_tls_state().is_tracing) {
      return nullptr;
    }
    ProviderPtr provider = CurrentProvider();
    return provider ? HooksOf(std::move(provider)) : nullptr;
  }
};

Engine& TheStandaloneEngine() {
  static auto* const engine = new StandaloneEngine;
  return *engine;
}

}  // namespace

void SetHost(const Host& one) { host = one; }
const Host& TheHost() { return host; }

std::unique_ptr<SavedVariableHooks> HooksOf(ProviderPtr provider) {
  return std::make_unique<Hooks>(std::move(provider));
}

ProviderPtr CurrentProvider() {
  auto* const info = c10::ThreadLocalDebugInfo::get(kHooksInfo);
  return info != nullptr ? static_cast<HooksInfo*>(info)->provider : nullptr;
}

void PushProvider(const ProviderPtr& provider) {
  c10::ThreadLocalDebugInfo::_push(kHooksInfo, std::make_shared<HooksInfo>(provider));
}

void PopProvider() { c10::ThreadLocalDebugInfo::_pop(kHooksInfo); }

ProviderScope::ProviderScope(const ProviderPtr& provider) {
  host.push != nullptr ? host.push(provider) : PushProvider(provider);
}

ProviderScope::~ProviderScope() { host.pop != nullptr ? host.pop() : PopProvider(); }

void InstallStandaloneEngine() {
  static const bool installed = [] {
    if (host.push == nullptr) torch::autograd::set_default_engine_stub(&TheStandaloneEngine);
    return true;
  }();
  static_cast<void>(installed);
}

}  // namespace restow::libtorch
