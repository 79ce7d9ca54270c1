// Selective recompute: of a checkpointed function, some operators are not run again. What they gave
// and what they saved is kept, or swapped, and handed out when the function runs again.
//
// It works above autograd, on a dispatch key that no backend uses: an operator that is kept is
// skipped whole in the rerun, its saved tensors are filled in from its arguments, its results and
// what else it saved. An operator that writes into one of its arguments makes what was kept of that
// storage stale; it is then run again after all. Random states go on as if it had been run.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/checkpoint.h"
#include "engine/operator_names.h"
#include "engine/region.h"

namespace restow::libtorch {

// Asked once per operator of the forward that could be kept; `arguments` are the stack's last.
// Composite operators are asked for as the operators they are made of, except where a name list
// takes them whole. May throw.
using StackPolicy =
    std::function<OperatorChoice(const c10::OperatorHandle& op, const torch::jit::Stack& stack)>;

// "aten::add.Tensor"
std::string FullName(const c10::OperatorHandle& op);

// The region, in figures, of what the checkpoint `name` keeps of its operators.
inline std::string KeptSiteOf(const std::string& name) { return name + " (kept)"; }

// Of one invocation.
class Selection {
 public:
  // Names decide first; `policy` (may be null) is asked for the others. `kept` holds what is kept.
  Selection(std::shared_ptr<const OperatorNames> names, StackPolicy policy,
            std::shared_ptr<SavingRegion> kept);

  void Forward(Running& running, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
               torch::jit::Stack* stack);
  void Again(Running& running, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
             torch::jit::Stack* stack);
  // The forward is over: what is to be swapped leaves now. Not before, as operators may still write
  // into it.
  void End();

 private:
  // A tensor that is kept: itself during the forward, a slot after it.
  struct Held {
    at::Tensor alias;
    std::uint32_t version = 0;
    std::shared_ptr<SavedSlot> slot;

    at::Tensor Get() const { return slot ? slot->Unpack() : AliasOf(alias); }
  };
  using Sizes = c10::SmallVector<std::int64_t, 5>;
  struct Layout {
    Sizes sizes, strides;
    std::int64_t offset = 0;
  };
  // A saved tensor of a kept operator: its argument or a view of it, its result, or a tensor of its
  // own. Views are made again, so that what they lie in is not kept.
  struct Fill {
    enum Kind : std::uint8_t { kArgument, kView, kResult, kOwn } kind = kOwn;
    std::size_t number = 0;
    Held own;
    Layout argument, view;
  };
  struct Result {
    c10::IValue plain;  // not a tensor, or undefined
    Held held;          // else
    bool is_tensor = false, requires_grad = false;
  };
  struct Random {
    c10::Device device;
    at::Tensor state;
  };
  struct Kept {
    const c10::FunctionSchema* schema = nullptr;
    swap::Decision decision = swap::Decision::kKeep;
    std::size_t first_saved = 0;
    std::vector<Fill> fills;
    std::vector<Result> results;
    std::vector<const c10::StorageImpl*> storages;  // of results
    std::vector<Random> random;                     // after it ran
  };

  static Held Hold(const at::Tensor& tensor);
  static Layout LayoutOf(const at::Tensor& tensor);
  static Fill FillOf(const at::Tensor& saved, const std::vector<at::Tensor>& arguments,
                     const std::vector<at::Tensor>& results);
  static std::optional<at::Tensor> Filled(const Fill& fill,
                                          const std::vector<at::Tensor>& arguments,
                                          const std::vector<c10::IValue>& results);
  bool PutAway(Kept& kept);
  const NamedChoice* Named(const c10::OperatorHandle& op) const;
  OperatorChoice Turn(const NamedChoice& named);
  OperatorChoice Ask(const c10::OperatorHandle& op, const torch::jit::Stack& stack) const;
  void Keep(Running& running, std::size_t number, const c10::OperatorHandle& op,
            c10::DispatchKeySet keys, torch::jit::Stack* stack, OperatorChoice choice);
  void MakeStale(const torch::jit::Stack& stack, const c10::FunctionSchema& schema);

  std::shared_ptr<const OperatorNames> names_;
  StackPolicy policy_;
  std::shared_ptr<SavingRegion> kept_;
  std::uint64_t turns_ = 0;                // of names of which every second is kept
  std::map<std::size_t, Kept> by_number_;  // in the order in which they ran
};

// From now on this thread's operators come to the selection of the frame that it runs.
void Watch(Running& running);

// Never kept and never asked for, in the whole process. Errors: as of AddOperators.
void IgnoreOperators(const std::vector<std::string>& names);

}  // namespace restow::libtorch
