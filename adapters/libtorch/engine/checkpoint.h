// Recompute: what a function saves is not kept but made again, by running the function once more
// when backward first asks for any of it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
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
class Replay;
class Selection;

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

  std::shared_ptr<SavedSlot> Pack(const at::Tensor& tensor) override;
  const std::string& name() const { return site_.name; }
  bool preserves_random() const { return spec_.preserve_random; }

  // Which operators are not run again; null: all are. Set once, at the beginning of the forward.
  void Select(std::shared_ptr<Selection> selection) { selection_ = std::move(selection); }
  const std::shared_ptr<Selection>& selection() const { return selection_; }

  // What is saved until EndCapture, with its index: an operator that is kept is running.
  struct Captured {
    std::size_t index = 0;
    at::Tensor alias;
  };
  void BeginCapture() { capture_ = std::make_unique<std::vector<Captured>>(); }
  std::vector<Captured> EndCapture();
  std::size_t saved_count() const;

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
    std::size_t checksum = 0;
    bool live = true;
  };
  struct Run {  // one rerun, for one backward
    enum State { kRunning, kDone } state = kRunning;
    std::thread::id thread;
    std::vector<at::Tensor> tensors;
    std::vector<std::uint32_t> versions;  // of the tensors when they were saved
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
  std::shared_ptr<Selection> selection_;
  std::unique_ptr<std::vector<Captured>> capture_;
  std::vector<Input> inputs_;
  std::unique_ptr<Ambient> ambient_;
  Excluded excluded_;

  mutable std::mutex mutex_;  // guards what follows; never held while the function runs
  std::condition_variable done_;
  std::vector<Saved> saved_;
  std::map<int, RunPtr> runs_;  // by graph task
};

// The provider of a rerun.
class Replay final : public Provider {
 public:
  Replay(Frame& frame, Frame::Run& run, std::size_t needed)
      : frame_(frame), run_(run), needed_(needed) {}

  std::shared_ptr<SavedSlot> Pack(const at::Tensor& tensor) override;
  // The next tensor that the forward saved, however it was come by. Errors: StopRecompute when it
  // was the last, NotDeterministic.
  void Accept(const at::Tensor& tensor);
  std::size_t next() const { return run_.next; }

 private:
  Frame& frame_;
  Frame::Run& run_;
  std::size_t needed_;
};

// The frame whose function this thread is running, and whether again.
struct Running {
  Frame* frame = nullptr;
  bool again = false;
  std::size_t excluded = 0;   // regions met so far that are not run again
  std::size_t operators = 0;  // met so far, where operators are selected
  Replay* replay = nullptr;   // of the rerun
  std::unique_ptr<c10::impl::IncludeDispatchKeyGuard> watching;  // operators come to the selection
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
