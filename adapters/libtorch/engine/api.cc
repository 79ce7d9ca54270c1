// The face for C++ programs.
#include <optional>
#include <utility>

#include "engine/checkpoint.h"
#include "engine/engines.h"
#include "engine/hooks.h"
#include "engine/host.h"
#include "engine/region.h"
#include "engine/selective.h"
#include "restow/base/error.h"
#include "restow/libtorch.h"

namespace restow::libtorch {
namespace {

void CheckCanMove(c10::Device device) {
  const std::string obstacle = ObstacleOf(device);
  if (obstacle.empty()) return;
  ThrowUnsupported("swap can have no effect here: " + obstacle +
                   "; set Settings::file_dir or RESTOW_FILE_DIR to a folder");
}

Policy ToPolicy(const SavePolicy& policy) {
  if (!policy) return nullptr;
  return [policy](const at::Tensor& tensor) {
    switch (policy(tensor)) {
      case Answer::kMustSave:
        return swap::Decision::kKeep;
      case Answer::kMustSwap:
        return swap::Decision::kSwap;
      case Answer::kBySize:
        break;
    }
    return swap::Decision::kAutomatic;
  };
}

// The policy of the interface as the engine asks it.
StackPolicy ToOperatorPolicy(const OperatorPolicy& policy) {
  if (!policy) return nullptr;
  return [policy](const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
    const std::size_t count = op.schema().arguments().size();
    const c10::ArrayRef<c10::IValue> arguments(stack.data() + (stack.size() - count), count);
    switch (policy(FullName(op), arguments)) {
      case OperatorAnswer::kSave:
        return OperatorChoice::kSave;
      case OperatorAnswer::kSwap:
        return OperatorChoice::kSwap;
      case OperatorAnswer::kRecompute:
        break;
    }
    return OperatorChoice::kRecompute;
  };
}

// Null where nothing is selected.
std::shared_ptr<Selection> SelectionOf(const CheckpointOptions& options) {
  const OperatorOptions& chosen = options.operators;
  if (chosen.save.empty() && chosen.swap.empty() && !chosen.policy) return nullptr;
  auto names = std::make_shared<OperatorNames>();
  for (const std::string& name : chosen.save) AddOperators(*names, name, OperatorChoice::kSave);
  for (const std::string& name : chosen.swap) AddOperators(*names, name, OperatorChoice::kSwap);
  RegionSpec spec;
  spec.site = KeptSiteOf(options.name);
  spec.place = chosen.to_file ? swap::Place::kFile : swap::Place::kHost;
  spec.fuse = chosen.fuse;
  return std::make_shared<Selection>(std::move(names), ToOperatorPolicy(chosen.policy),
                                     std::make_shared<SavingRegion>(std::move(spec)));
}

std::shared_ptr<SavingRegion> RegionOf(const SwapOptions& options) {
  RegionSpec spec;
  spec.site = options.name;
  spec.policy = ToPolicy(options.policy);
  spec.min_bytes = options.min_bytes;
  spec.place = options.to_file ? swap::Place::kFile : swap::Place::kHost;
  spec.fuse = options.fuse;
  return std::make_shared<SavingRegion>(std::move(spec));
}

}  // namespace

void Start() { InstallStandaloneEngine(); }

struct SwapScope::State {
  explicit State(const SwapOptions& options) : region(RegionOf(options)), scope(region) {
    EnterRegion(region);
  }
  ~State() { LeaveRegion(region); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::shared_ptr<SavingRegion> region;
  ProviderScope scope;
};

SwapScope::SwapScope(SwapOptions options, c10::Device device) {
  if (!at::GradMode::is_enabled()) return;
  Start();
  CheckCanMove(device);
  state_ = std::make_unique<State>(options);
}

SwapScope::~SwapScope() = default;

Tensors Checkpoint(std::function<Tensors(const Tensors&)> function, const Tensors& inputs,
                   CheckpointOptions options) {
  if (!at::GradMode::is_enabled()) return function(inputs);
  Start();
  CheckpointSpec spec;
  spec.name = options.name;
  spec.preserve_random = options.preserve_random;
  spec.early_stop = options.early_stop;
  spec.check = options.check;
  if (options.swap_inputs && !inputs.empty()) {
    CheckCanMove(inputs.front().device());
    spec.inputs_region = RegionOf({.name = options.name});
  }
  const std::shared_ptr<Selection> selection = SelectionOf(options);
  const auto frame =
      Frame::Begin(std::move(spec), inputs, [function](const Tensors& again) { function(again); });
  frame->Select(selection);
  RunningScope running(*frame, false);
  const ProviderScope scope(frame);
  if (!selection) return function(inputs);
  Watch(running.running);
  Tensors results = function(inputs);
  running.running.watching.reset();
  selection->End();
  return results;
}

swap::Stats CurrentStats() { return SumOfStats(); }

}  // namespace restow::libtorch
