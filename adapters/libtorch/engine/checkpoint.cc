#include "engine/checkpoint.h"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>
#include <thread>
#include <utility>

#include "engine/errors.h"
#include "engine/guard.h"
#include "engine/host.h"
#include "engine/internal_ops.h"
#include "engine/selective.h"
#include "engine/storage.h"

namespace restow::libtorch {
namespace {

thread_local Running* running_now = nullptr;

std::size_t ChecksumOf(const at::Tensor& tensor) {
  const InternalOps internal;
  const at::Tensor bytes = tensor.contiguous().cpu();
  const auto* const data = static_cast<const char*>(bytes.const_data_ptr());
  return std::hash<std::string_view>{}({data, bytes.nbytes()});
}

// What the frame itself keeps: its inputs' storages, each once.
void CountInputs(Site& site, const std::vector<at::Tensor>& inputs) {
  std::vector<const c10::StorageImpl*> seen;
  SiteBytes bytes;
  for (const at::Tensor& input : inputs) {
    if (!input.defined() || StandingOf(input) != Standing::kMovable) continue;
    const c10::StorageImpl* const storage = input.storage().unsafeGetStorageImpl();
    if (std::find(seen.begin(), seen.end(), storage) != seen.end()) continue;
    seen.push_back(storage);
    bytes.kept += static_cast<std::int64_t>(input.storage().nbytes());
  }
  const std::lock_guard<std::mutex> lock(site.mutex);
  bytes.invocations = site.bytes.invocations + 1;
  site.bytes = bytes;
}

// Keeps what a rerun saves for as long as the rerun's own graph lives: a function may run a
// backward of its own.
class PlainSlot final : public SavedSlot {
 public:
  explicit PlainSlot(const at::Tensor& tensor) : alias_(AliasOf(tensor)) {}
  at::Tensor Unpack() override { return AliasOf(alias_); }

 private:
  at::Tensor alias_;
};

}  // namespace

class FrameSlot final : public SavedSlot {
 public:
  FrameSlot(std::shared_ptr<Frame> frame, std::size_t index)
      : frame_(std::move(frame)), index_(index) {}
  ~FrameSlot() override { frame_->Forget(index_); }
  FrameSlot(const FrameSlot&) = delete;
  FrameSlot& operator=(const FrameSlot&) = delete;

  at::Tensor Unpack() override { return frame_->Get(index_); }

 private:
  std::shared_ptr<Frame> frame_;
  std::size_t index_;
};

std::shared_ptr<SavedSlot> Replay::Pack(const at::Tensor& tensor) {
  auto slot = std::make_shared<PlainSlot>(tensor);
  Accept(tensor);
  return slot;
}

void Replay::Accept(const at::Tensor& tensor) {
  const std::size_t index = run_.next++;
  if (index >= needed_) return;
  if (frame_.spec_.check != DeterminismCheck::kNone) frame_.Compare(index, tensor);
  {
    const std::lock_guard<std::mutex> lock(frame_.mutex_);
    if (frame_.saved_[index].live) {
      run_.tensors[index] = AliasOf(tensor);
      run_.versions[index] = VersionOf(tensor);
    }
  }
  if (frame_.spec_.early_stop && run_.next == needed_) throw StopRecompute{&frame_};
}

Frame::Frame(CheckpointSpec spec, Rerun rerun)
    : spec_(std::move(spec)), site_(SiteOf(spec_.name)), rerun_(std::move(rerun)) {}

std::shared_ptr<Frame> Frame::Begin(CheckpointSpec spec, const std::vector<at::Tensor>& inputs,
                                    Rerun rerun) {
  if (!spec.inputs_region) CountInputs(SiteOf(spec.name), inputs);
  const std::shared_ptr<Frame> frame(new Frame(std::move(spec), std::move(rerun)));
  frame->ambient_ = std::make_unique<Ambient>(DevicesOf(inputs), frame->spec_.preserve_random);
  std::optional<ProviderScope> scope;
  if (frame->spec_.inputs_region) scope.emplace(frame->spec_.inputs_region);
  for (const at::Tensor& input : inputs) {
    Input& one = frame->inputs_.emplace_back();
    one.defined = input.defined();
    if (!one.defined) continue;
    one.requires_grad = input.requires_grad();
    // Asked of the tensor itself: its alias no longer shows that it is a parameter.
    static_cast<void>(StandingOf(input));
    // Without history: an input that the function changes in place would hold its own graph.
    one.saved = torch::autograd::SavedVariable(AliasOf(input), false);
  }
  return frame;
}

std::shared_ptr<SavedSlot> Frame::Pack(const at::Tensor& tensor) {
  Saved saved = Look(tensor);
  if (spec_.check == DeterminismCheck::kValues) saved.checksum = ChecksumOf(tensor);
  std::size_t index = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    index = saved_.size();
    saved_.push_back(std::move(saved));
  }
  if (capture_) capture_->push_back({index, AliasOf(tensor)});
  return std::make_shared<FrameSlot>(std::static_pointer_cast<Frame>(shared_from_this()), index);
}

std::vector<Frame::Captured> Frame::EndCapture() {
  std::vector<Captured> captured = std::move(*capture_);
  capture_.reset();
  return captured;
}

std::size_t Frame::saved_count() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return saved_.size();
}

Frame::Saved Frame::Look(const at::Tensor& tensor) const {
  Saved saved{tensor.scalar_type(), tensor.device(), tensor.layout(), {}, 0, true};
  const bool plain =
      !tensor.is_nested() && !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
  if (plain) saved.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  return saved;
}

at::Tensor Frame::Get(std::size_t index) {
  const LockPause pause;  // before this frame's lock, which the interpreter's must not wait behind
  const int key = torch::autograd::get_current_graph_task_id();
  const RunPtr run = RunFor(key);
  at::Tensor tensor;
  std::uint32_t version = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (index < run->tensors.size()) {
      tensor = run->tensors[index];
      version = run->versions[index];
    }
  }
  if (tensor.defined() && VersionOf(tensor) != version) {
    throw ModifiedInPlace("a " + Describe(tensor) + " that '" + name() +
                          "' saves for backward is changed in place afterwards by the same "
                          "function; wanted by " +
                          CurrentNodeName() + ". Change a clone of it");
  }
  if (!tensor.defined()) {
    throw NotDeterministic("recompute of '" + name() + "' did not save tensor " +
                           std::to_string(index) + " again");
  }
  return AliasOf(tensor);
}

// The finished rerun of this backward. Outside backward (key -1) a rerun serves one question.
Frame::RunPtr Frame::RunFor(int key) {
  auto run = std::make_shared<Run>();
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (key >= 0) {
      const auto found = runs_.find(key);
      if (found != runs_.end()) {
        const RunPtr other = found->second;
        if (other->state == Run::kRunning && other->thread == std::this_thread::get_id()) {
          ThrowUsage("recompute of '" + name() +
                     "' needs its own result: its function runs a "
                     "backward through what it is recomputing");
        }
        done_.wait(lock, [&] { return other->state != Run::kRunning; });
        const auto still = runs_.find(key);
        if (still != runs_.end() && still->second == other) return other;
      }
      runs_[key] = run;
    }
    run->thread = std::this_thread::get_id();
    run->tensors.resize(saved_.size());
    run->versions.resize(saved_.size());
  }
  try {
    Execute(*run);
  } catch (...) {
    const std::lock_guard<std::mutex> lock(mutex_);
    run->state = Run::kDone;
    if (key >= 0) runs_.erase(key);
    done_.notify_all();
    throw;
  }
  if (key >= 0) {
    // What a backward that keeps its graph made again goes with it.
    const std::weak_ptr<Provider> self = weak_from_this();
    torch::autograd::Engine::get_default_engine().queue_callback([self, key] {
      if (const auto frame = self.lock()) static_cast<Frame&>(*frame).EndOf(key);
    });
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  run->state = Run::kDone;
  done_.notify_all();
  return run;
}

void Frame::Execute(Run& run) {
  std::vector<at::Tensor> inputs = Inputs();
  const auto replay = std::make_shared<Replay>(*this, run, run.tensors.size());
  const AmbientScope ambient(*ambient_);
  const c10::AutoGradMode grad(true);
  RunningScope running(*this, true);
  running.running.replay = replay.get();
  if (selection_) Watch(running.running);
  {
    const ProviderScope scope(replay);
    try {
      rerun_(std::move(inputs));
    } catch (const StopRecompute& stop) {
      if (stop.frame != this) throw;
    }
  }
  CountRecomputedRegion();
  if (spec_.check != DeterminismCheck::kNone) CheckCount(run);
}

std::vector<at::Tensor> Frame::Inputs() const {
  std::vector<at::Tensor> inputs;
  for (const Input& input : inputs_) {
    if (!input.defined) {
      inputs.emplace_back();
      continue;
    }
    at::Tensor tensor;
    try {
      tensor = input.saved.unpack();
    } catch (const c10::Error& error) {
      if (std::strstr(error.what(), "modified by an inplace operation") == nullptr) throw;
      throw ModifiedInPlace("an input of '" + name() +
                            "' was changed in place after its forward, so that it cannot be "
                            "recomputed. Change a clone of it (" +
                            error.what_without_backtrace() + ")");
    }
    inputs.push_back(AliasOf(tensor).set_requires_grad(input.requires_grad));
  }
  return inputs;
}

void Frame::Compare(std::size_t index, const at::Tensor& tensor) const {
  const Saved now = Look(tensor);
  Saved then = now;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    then = saved_[index];
  }
  const auto text = [](const Saved& one) {
    return std::string(c10::toString(one.dtype)) + SizesText(one.sizes) + " on " + one.device.str();
  };
  const bool same = now.dtype == then.dtype && now.device == then.device &&
                    now.layout == then.layout && now.sizes == then.sizes;
  const bool values = spec_.check == DeterminismCheck::kValues;
  if (same && (!values || ChecksumOf(tensor) == then.checksum)) return;
  const std::string saver = CurrentNodeName();
  std::string message = "recompute of '" + name() + "' differs from its forward: tensor " +
                        std::to_string(index) + " that was saved";
  message += same ? " (" + text(now) + ") has other values"
                  : " is " + text(now) + " and was " + text(then);
  if (tensor.grad_fn()) message += "; it was made by " + tensor.grad_fn()->name();
  if (!saver.empty()) message += "; wanted by " + saver;
  throw NotDeterministic(message + ". The function must do the same when it is run again");
}

void Frame::CheckCount(const Run& run) const {
  const std::size_t needed = run.tensors.size();
  const bool enough = run.next == needed || (spec_.early_stop && run.next >= needed);
  if (enough) return;
  throw NotDeterministic("recompute of '" + name() + "' saved " + std::to_string(run.next) +
                         " tensors, its forward " + std::to_string(needed) +
                         ". The function must do the same when it is run again");
}

// Nobody will ask for this tensor again.
void Frame::Forget(std::size_t index) noexcept {
  std::vector<at::Tensor> dead;
  const std::lock_guard<std::mutex> lock(mutex_);
  saved_[index].live = false;
  for (auto& [key, run] : runs_) {
    if (index < run->tensors.size()) dead.push_back(std::move(run->tensors[index]));
  }
}

void Frame::EndOf(int key) noexcept {
  RunPtr run;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = runs_.find(key);
  if (found == runs_.end()) return;
  run = std::move(found->second);
  runs_.erase(found);
}

Running* CurrentlyRunning() { return running_now; }

RunningScope::RunningScope(Frame& frame, bool again) : before_(running_now) {
  running.frame = &frame;
  running.again = again;
  running_now = &running;
}

RunningScope::~RunningScope() { running_now = before_; }

}  // namespace restow::libtorch
