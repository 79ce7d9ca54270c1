#include "python/proxy.h"

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/engine.h>

#include <atomic>

#include "engine/engines.h"
#include "engine/hooks.h"
#include "python/handles.h"

namespace restow::libtorch {
namespace {

using torch::autograd::AnomalyMetadata;
using torch::autograd::Engine;
using torch::autograd::SavedVariableHooks;

std::atomic<bool> on{true};

struct Proxy final : Engine {
  explicit Proxy(Engine& one) : behind(one) {}

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph, bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    CheckNotForked();
    return behind.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& task,
      c10::intrusive_ptr<torch::autograd::Node> root,
      torch::autograd::InputBuffer&& buffer) override {
    CheckNotForked();
    return behind.execute_with_graph_task(task, std::move(root), std::move(buffer));
  }
  std::unique_ptr<AnomalyMetadata> make_anomaly_metadata() override {
    return behind.make_anomaly_metadata();
  }
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    const auto& state = at::SavedTensorDefaultHooks::get_tls_state();
    if (!on.load(std::memory_order_relaxed) || state.stack.empty() || state.is_tracing) {
      return behind.get_default_saved_variable_hooks();
    }
    const ProviderPtr* const provider =
        ProviderOfHandle(state.stack.top().first.ptr(getPyInterpreter()));
    if (provider == nullptr) return behind.get_default_saved_variable_hooks();
    return HooksOf(*provider);
  }

  // Torch rebuilds its engine in a forked child, but only for calls from Python.
  void CheckNotForked() const {
    TORCH_CHECK(
        generation == ProcessGeneration(),
        "a backward that is started from C++ cannot run in a forked child of a process that "
        "has imported restow.torch; start the child with spawn");
  }

  Engine& behind;
  std::uint32_t generation = ProcessGeneration();
};

Proxy* proxy = nullptr;
Engine& TheProxy() { return *proxy; }

}  // namespace

void InstallProxy() {
  if (proxy != nullptr) return;
  proxy = new Proxy(Engine::get_default_engine());
  torch::autograd::set_default_engine_stub(&TheProxy);
}

void SwitchProxy(bool value) { on.store(value); }

}  // namespace restow::libtorch
