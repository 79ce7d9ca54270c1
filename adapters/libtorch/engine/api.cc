// The face for C++ programs.
#include <optional>
#include <utility>

#include "engine/checkpoint.h"
#include "engine/engines.h"
#include "engine/hooks.h"
#include "engine/host.h"
#include "engine/region.h"
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
  const auto frame =
      Frame::Begin(std::move(spec), inputs, [function](const Tensors& again) { function(again); });
  const RunningScope running(*frame, false);
  const ProviderScope scope(frame);
  return function(inputs);
}

swap::Stats CurrentStats() { return SumOfStats(); }

}  // namespace restow::libtorch
