// Recompute: what a function saves is not kept but made again, by running the function once more
// when backward first asks for any of it.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/ambient.h"
#include "engine/provider.h"
#include "engine/region.h"
#include "restow/libtorch.h"

namespace restow::libtorch {

struct CheckpointSpec {
  std::string name;
  bool preserve_random = true;
  bool early_stop = true;  // a rerun ends with the last tensor that is needed
  DeterminismCheck check = DeterminismCheck::kDefault;
  // Where the inputs are kept: null: where they are, or as the enclosing provider decides.
  std::shared_ptr<SavingRegion> inputs_region;
};

class Frame;

// Thrown out of the rerun of `frame` when it has saved all that is needed.
struct StopRecompute {
  const Frame* frame = nullptr;
};

// Runs the function again on `inputs`, in the order given to the frame. A StopRecompute of this
// frame must come out of it as it is, or be swallowed.
using Rerun = std::function<void(std::vector<at::Tensor> inputs)>;

// One invocation of a checkpointed function; the provider of its forward. Slots keep it alive.
class Frame final : public Provider {
 public:
  // `inputs`: the tensors that `rerun` needs; undefined ones are passed through.
  // Threads: made and packed into by the thread of the forward; slots are unpacked by any.
  static std::shared_ptr<Frame> Begin(CheckpointSpec spec, const std::vector<at::Tensor>& inputs,
                                      Rerun rerun);

  std::unique_ptr<SavedSlot> Pack(const at::Tensor& tensor) override;
  const std::string& name() const { return site_.name; }

  // Opaque to the core: results of regions that a rerun must not run again.
  struct Excluded {
    std::vector<std::shared_ptr<void>> results;
  };
  Excluded& excluded() { return excluded_; }

 private:
  friend class FrameSlot;
  friend class Replay;
  struct Saved {  // what a save of the forward looked like
    at::ScalarType dtype;
    c10::Device device;
    c10::Layout layout;
    c10::SmallVector<std::int64_t, 5> sizes;
    std::uint64_t checksum = 0;
    bool live = true;
  };
  struct Run {  // one rerun, for one backward
    enum State { kRunning, kDone } state = kRunning;
    std::thread::id thread;
    std::vector<at::Tensor> tensors;
    std::size_t next = 0;
  };
  using RunPtr = std::shared_ptr<Run>;

  Frame(CheckpointSpec spec, Rerun rerun);
  at::Tensor Get(std::size_t index);
  RunPtr RunFor(int key);
  void Execute(Run& run);
  std::vector<at::Tensor> Inputs() const;
  Saved Look(const at::Tensor& tensor) const;
  void Compare(std::size_t index, const at::Tensor& tensor) const;
  void CheckCount(const Run& run) const;
  void Forget(std::size_t index) noexcept;
  void EndOf(int key) noexcept;

  struct Input {
    torch::autograd::SavedVariable saved;
    bool defined = false, requires_grad = false;
  };

  CheckpointSpec spec_;
  Site& site_;
  Rerun rerun_;
  std::vector<Input> inputs_;
  std::unique_ptr<Ambient> ambient_;
  Excluded excluded_;

  mutable std::mutex mutex_;  // guards what follows; never held while the function runs
  std::condition_variable done_;
  std::vector<Saved> saved_;
  std::map<int, RunPtr> runs_;  // by graph task
};

// The frame whose function this thread is running, and whether again.
struct Running {
  Frame* frame = nullptr;
  bool again = false;
  std::size_t excluded = 0;  // regions met so far that are not run again
};
Running* CurrentlyRunning();

// Marks this thread as running a frame's function for a scope.
class RunningScope {
 public:
  RunningScope(Frame& frame, bool again);
  ~RunningScope();
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;
  Running running;

 private:
  Running* before_;
};

}  // namespace restow::libtorch
