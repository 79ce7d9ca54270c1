// Swap and recompute of activations for C++ programs on libtorch, with no Python in the process.
//
//   restow::libtorch::Start();                              // before the first backward
//   for (auto& block : blocks) x = restow::libtorch::Swap(*block, x);
//   y = restow::libtorch::Checkpoint(*head, x);             // head->forward runs again in backward
//
// Gradients are bit-identical to those without it, or an error says why not. Link librestow_torch,
// libtorch_cpu and libc10; built for torch 2.13.
// Threads: everything may be called from any thread; a scope ends on the thread that began it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "restow/swap/stats.h"

namespace restow::libtorch {

// Settings of the process. Sizes in bytes.
struct Settings {
  std::string file_dir;        // folder of the file tier; empty: none
  std::int64_t file_cap = -1;  // -1: none
  std::int64_t host_cap = std::numeric_limits<std::int64_t>::max();
  std::int64_t window = std::int64_t{512} << 20;   // in transit on a device, per direction
  std::int64_t min_bytes = std::int64_t{1} << 20;  // below it, what no policy names stays
  bool keep_last_region = true;
  double watchdog_s = 0;  // 0: none
};
// The defaults, with RESTOW_FILE_DIR, RESTOW_FILE_CAP, RESTOW_HOST_CAP, RESTOW_WINDOW and
// RESTOW_MIN_BYTES of the environment over them. Errors: kBadInput naming the variable.
Settings SettingsFromEnvironment();
Settings CurrentSettings();
// Holds from the next region on; what is saved already stays under the old ones.
// Errors: kBadInput for sizes out of range or a folder that cannot be used.
void Configure(const Settings& settings);

// Makes torch ask Restow how tensors are saved. Call it before the first backward of the process:
// the autograd engine that runs backward is chosen then. Later calls do nothing.
void Start();

enum class Answer : std::uint8_t {
  kBySize,
  kMustSave,
  kMustSwap,
};
// Asked once per save of a tensor that could move. May throw.
using SavePolicy = std::function<Answer(const at::Tensor&)>;

struct SwapOptions {
  std::string name = "swap";    // the region in figures; its schedule is learnt under this name
  SavePolicy policy = nullptr;  // null: by size
  std::int64_t min_bytes = -1;  // -1: the process's
  bool to_file = false;
  bool fuse = false;  // small tensors travel in fused copies
};

// While it lives, what autograd saves on this thread is swapped. Backward may run outside.
class SwapScope {
 public:
  // `device`: where the tensors are; swap that cannot have an effect there is refused.
  // Errors: kUnsupported with the remedy.
  explicit SwapScope(SwapOptions options, c10::Device device);
  ~SwapScope();
  SwapScope(const SwapScope&) = delete;
  SwapScope& operator=(const SwapScope&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

enum class DeterminismCheck : std::uint8_t {
  kNone,
  kDefault,  // sizes, type and device of everything saved, and how much
  kValues,   // also a checksum of the bytes; makes the host wait at each save
};

enum class OperatorAnswer : std::uint8_t { kRecompute, kSave, kSwap };
// Asked once for each operator of the forward that could be kept and that no list names: its name
// ("aten::mm", "aten::add.Tensor") and its arguments. May throw.
using OperatorPolicy =
    std::function<OperatorAnswer(const std::string& name, c10::ArrayRef<c10::IValue> arguments)>;

// Which operators of a checkpointed function are not run again. Empty: all are. A name is that of
// an operator or of a set: "attention", "matmul", "norm", "communication", "every second matmul".
// Views and operators that write into their arguments are always run again.
struct OperatorOptions {
  std::vector<std::string> save = {};
  std::vector<std::string> swap = {};
  OperatorPolicy policy = nullptr;
  bool to_file = false;  // what is swapped
  bool fuse = false;     // what is small and swapped travels in fused copies
};

struct CheckpointOptions {
  std::string name = "checkpoint";
  bool preserve_random = true;
  bool early_stop = true;    // a rerun ends with the last tensor that is needed
  bool swap_inputs = false;  // what the checkpoint keeps, its inputs, is swapped
  DeterminismCheck check = DeterminismCheck::kDefault;
  OperatorOptions operators = {};
};

using Tensors = std::vector<at::Tensor>;

// Runs `function` on `inputs`, and again in backward instead of keeping what it saves. It must do
// the same both times, and what it captures must still be there.
// Errors: kBadInput for a name that is no operator; NotDeterministic or ModifiedInPlace (errors.h)
// in backward; what `function` throws.
Tensors Checkpoint(std::function<Tensors(const Tensors&)> function, const Tensors& inputs,
                   CheckpointOptions options = {});

// The storage of a parameter or buffer never moves.
void RememberParameter(const at::Tensor& tensor);

template <typename Module>
void RememberParameters(const Module& module) {
  for (const at::Tensor& tensor : module.parameters()) RememberParameter(tensor);
  for (const at::Tensor& tensor : module.buffers()) RememberParameter(tensor);
}

// `module.forward(input)` of a torch::nn::Module with its activations swapped.
template <typename Module>
at::Tensor Swap(Module& module, const at::Tensor& input, SwapOptions options = {}) {
  RememberParameters(module);
  const SwapScope scope(std::move(options), input.device());
  return module.forward(input);
}

// `module.forward(input)`, recomputed in backward. The module must outlive the backward.
template <typename Module>
at::Tensor Checkpoint(Module& module, const at::Tensor& input, CheckpointOptions options = {}) {
  RememberParameters(module);
  return Checkpoint([&module](const Tensors& inputs) { return Tensors{module.forward(inputs[0])}; },
                    {input}, std::move(options))[0];
}

// Sums over all devices.
swap::Stats CurrentStats();
void ResetStats();

// Why a saved tensor was or was not moved, in the last invocation of its region.
struct Explanation {
  std::string label;  // region or tag, and sizes
  std::int64_t bytes = 0;
  std::string decision;  // "moved", "kept", "left alone"
  std::string reason;
};
std::vector<Explanation> Explain();

}  // namespace restow::libtorch
