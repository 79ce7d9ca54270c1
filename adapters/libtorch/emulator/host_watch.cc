// Notices what the CPU's own operators do to pinned memory, so that the host takes part in the race
// detection: a block read before its copy is done, or written again while a copy still reads it.
//
// Seen are operators that torch dispatches; numpy views and raw pointers are not.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "emulator/alias.h"
#include "emulator/memory.h"

namespace restow::emulator {
namespace {

using c10::FunctionSchema;

// They have a kernel for the CPU, but touch no bytes.
bool OnlyMetadata(const FunctionSchema& schema) {
  static constexpr std::array<std::string_view, 3> kNames{"aten::resize_", "aten::set_",
                                                          "aten::is_set_to"};
  if (std::find(kNames.begin(), kNames.end(), schema.name()) != kNames.end()) return true;
  const auto& returns = schema.returns();
  return !returns.empty() && std::all_of(returns.begin(), returns.end(), [](const auto& value) {
    return value.alias_info() != nullptr && !value.alias_info()->isWrite();
  });
}

// Whether the operator itself touches bytes; those composed of others are seen by their parts.
bool TouchesBytes(const c10::OperatorHandle& op) {
  if (op.schema().name() == "aten::copy_") return true;
  return op.hasKernelForDispatchKey(c10::DispatchKey::CPU) && !OnlyMetadata(op.schema());
}

template <typename Visit>
void ForEachTensor(const c10::IValue& value, Visit visit) {
  if (value.isTensor() && value.toTensor().defined()) visit(value.toTensor());
  if (!value.isTensorList()) return;
  for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
}

bool InPinnedMemory(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == c10::Layout::Strided && tensor.has_storage() &&
         IsPinned(tensor.const_data_ptr());
}

// A device tensor among the arguments: that is a copy, which a stream makes.
bool WantsWatching(c10::ArrayRef<const c10::IValue> inputs) {
  bool pinned = false;
  bool device = false;
  for (const c10::IValue& input : inputs) {
    ForEachTensor(input, [&](const at::Tensor& tensor) {
      device = device || IsEmu(tensor);
      pinned = pinned || InPinnedMemory(tensor);
    });
  }
  return pinned && !device;
}

void Note(const c10::OperatorHandle& op, c10::ArrayRef<const c10::IValue> inputs) {
  const auto& arguments = op.schema().arguments();
  std::vector<Use> uses;
  for (std::size_t i = 0; i < inputs.size() && i < arguments.size(); ++i) {
    const auto* const alias = arguments[i].alias_info();
    const bool write = alias != nullptr && alias->isWrite();
    ForEachTensor(inputs[i], [&](const at::Tensor& tensor) {
      if (InPinnedMemory(tensor)) uses.push_back(UseOf(tensor, !write, write));
    });
  }
  HostAccess(op.schema().name(), uses);
}

std::unique_ptr<at::ObserverContext> OnOperator(const at::RecordFunction& function) {
  if (PinnedBytes() == 0) return nullptr;
  const auto name = function.operator_name();
  if (!name || !WantsWatching(function.inputs())) return nullptr;
  const auto op = c10::Dispatcher::singleton().findOp(*name);
  if (op && TouchesBytes(*op)) Note(*op, function.inputs());
  return nullptr;
}

const bool watching = [] {
  at::addGlobalCallback(at::RecordFunctionCallback(&OnOperator)
                            .needsInputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
  return true;
}();

}  // namespace
}  // namespace restow::emulator
