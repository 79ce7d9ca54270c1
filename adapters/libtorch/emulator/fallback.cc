#include "emulator/fallback.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "emulator/alias.h"
#include "emulator/device.h"

namespace restow::emulator {
namespace {

using at::Tensor;
using c10::FunctionSchema;
using c10::IValue;
using torch::jit::Stack;

// Writes that schemas do not tell.
bool WritesUntold(const FunctionSchema& schema, const c10::Argument& argument) {
  if (schema.name() != "aten::native_batch_norm" && schema.name() != "aten::cudnn_batch_norm") {
    return false;
  }
  return argument.name() == "running_mean" || argument.name() == "running_var";
}

// In-place operators that do not look at what they overwrite.
bool OnlyWrites(const FunctionSchema& schema, const c10::Argument& argument) {
  static constexpr std::array<std::string_view, 12> kNames{
      "aten::zero_",      "aten::fill_",       "aten::normal_",    "aten::uniform_",
      "aten::random_",    "aten::cauchy_",     "aten::bernoulli_", "aten::exponential_",
      "aten::geometric_", "aten::log_normal_", "aten::eye",        "aten::arange"};
  if (argument.is_out()) return true;
  const bool named = std::find(kNames.begin(), kNames.end(), schema.name()) != kNames.end();
  return named && argument.name() == "self";
}

bool Writes(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// Returns only views of its arguments: nothing is read or written.
bool IsView(const FunctionSchema& schema) {
  const auto& returns = schema.returns();
  return !returns.empty() && std::all_of(returns.begin(), returns.end(), [](const auto& value) {
    return value.alias_info() != nullptr && !value.alias_info()->isWrite();
  });
}

// The result is a value on the host, or its size is: the host waits, as on any device.
bool HostWaits(const c10::OperatorHandle& op) {
  if (op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output)) {
    return true;
  }
  const auto& returns = op.schema().returns();
  return std::any_of(returns.begin(), returns.end(), [](const c10::Argument& value) {
    const auto kind = value.type()->kind();
    return kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType &&
           kind != c10::TypeKind::OptionalType;
  });
}

// One call: its arguments as the device's tensors, then as the CPU's.
class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack* stack)
      : op_(op),
        schema_(op.schema()),
        stack_(stack),
        first_(stack->size() - schema_.arguments().size()) {}

  void Run() {
    FindDevice();
    const bool view = IsView(schema_);
    if (!view) CollectUses();
    const c10::Device device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device_));
    const c10::DeviceGuard guard(device);
    if (view) return RunView();
    {
      OperatorRun run(CurrentStream(device_), schema_.name(), std::move(uses_));
      RunKernel();
      for (const auto& [tensor, cpu] : written_) aliases_.Update(tensor, cpu, &run);
      for (IValue& value : *stack_) value = ToDevice(value, &run);
    }
    if (HostWaits(op_)) SyncStream(CurrentStream(device_));
  }

 private:
  IValue& Argument(std::size_t index) { return (*stack_)[first_ + index]; }

  template <typename Visit>
  static void ForEachTensor(const IValue& value, Visit visit) {
    if (value.isTensor()) {
      if (value.toTensor().defined()) visit(value.toTensor());
    } else if (value.isTensorList()) {
      for (const IValue& element : value.toListRef()) visit(element.toTensor());
    } else if (value.isOptionalTensorList()) {
      for (const IValue& element : value.toListRef()) {
        if (element.isTensor() && element.toTensor().defined()) visit(element.toTensor());
      }
    }
  }

  void FindDevice() {
    bool found = false;
    for (std::size_t i = 0; i < schema_.arguments().size(); ++i) {
      const IValue& value = Argument(i);
      if (value.isDevice() && !found && value.toDevice().is_privateuseone()) {
        const c10::Device device = value.toDevice();
        device_ = device.has_index() ? device.index() : CurrentDevice();
        found = true;
      }
      ForEachTensor(value, [&](const Tensor& tensor) {
        if (!IsEmu(tensor)) return CheckHostTensor(tensor, value);
        TORCH_CHECK(!found || tensor.device().index() == device_, schema_.name(),
                    ": expected all tensors to be on the same device, but found at least two, emu:",
                    device_, " and ", tensor.device());
        device_ = tensor.device().index();
        found = true;
      });
    }
    if (!found) device_ = CurrentDevice();
  }

  // As on other devices: scalars and lists of indices may be on the CPU, other tensors may not.
  void CheckHostTensor(const Tensor& tensor, const IValue& argument) const {
    TORCH_CHECK(tensor.dim() == 0 || argument.isOptionalTensorList() || !tensor.device().is_cpu(),
                schema_.name(),
                ": expected all tensors to be on the same device, but found one of ",
                tensor.sizes(), " on cpu beside tensors on emu");
  }

  void CollectUses() {
    for (std::size_t i = 0; i < schema_.arguments().size(); ++i) {
      const c10::Argument& argument = schema_.arguments()[i];
      const bool write = Writes(argument) || WritesUntold(schema_, argument);
      const bool read = !(write && OnlyWrites(schema_, argument));
      ForEachTensor(Argument(i), [&](const Tensor& tensor) {
        if (IsEmu(tensor)) uses_.push_back(UseOf(tensor, read, write));
      });
    }
  }

  Tensor ToCpu(const Tensor& tensor, bool written) {
    if (!IsEmu(tensor)) return tensor;
    Tensor cpu = aliases_.ToCpu(tensor);
    originals_.emplace(cpu.unsafeGetTensorImpl(), tensor);
    if (written) written_.emplace_back(tensor, cpu);
    return cpu;
  }

  IValue ToCpu(const IValue& value, const c10::Argument& argument) {
    const bool written = Writes(argument);
    if (value.isTensor()) return ToCpu(value.toTensor(), written);
    if (value.isTensorList()) {
      const c10::ArrayRef<IValue> tensors = value.toListRef();
      c10::List<Tensor> list;
      list.reserve(tensors.size());
      for (const IValue& tensor : tensors) list.push_back(ToCpu(tensor.toTensor(), written));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> list;
      for (const auto& tensor : value.toOptionalTensorVector()) {
        list.push_back(tensor ? std::optional(ToCpu(*tensor, written)) : std::nullopt);
      }
      return list;
    }
    if (value.isDevice() && value.toDevice().is_privateuseone()) {
      return IValue(c10::Device(c10::DeviceType::CPU));
    }
    return ToCpuGenerator(value, argument);
  }

  // An operator that takes a generator draws from the device's own unless told otherwise.
  IValue ToCpuGenerator(const IValue& value, const c10::Argument& argument) {
    const auto type = argument.type()->cast<c10::OptionalType>();
    if (!type || type->getElementType()->kind() != c10::TypeKind::GeneratorType) return value;
    has_generator_ = true;
    return CpuGenerator(value.isNone() ? DefaultGenerator(device_) : value.toGenerator());
  }

  void RunKernel() {
    for (std::size_t i = 0; i < schema_.arguments().size(); ++i) {
      Argument(i) = ToCpu(Argument(i), schema_.arguments()[i]);
    }
    const KernelGuard guard;
    if (op_.hasTag(at::Tag::nondeterministic_seeded) && !has_generator_) return RunSeeded();
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
  }

  // The kernel draws from the CPU's default generator: lend it the device's state.
  void RunSeeded() {
    const at::Generator& cpu = at::detail::getDefaultCPUGenerator();
    const at::Generator device = CpuGenerator(DefaultGenerator(device_));
    const Tensor before = cpu.get_state();
    const auto restore = [&] {
      device.unsafeGetGeneratorImpl()->set_state(*cpu.get_state().unsafeGetTensorImpl());
      cpu.unsafeGetGeneratorImpl()->set_state(*before.unsafeGetTensorImpl());
    };
    cpu.unsafeGetGeneratorImpl()->set_state(*device.get_state().unsafeGetTensorImpl());
    try {
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
    } catch (...) {
      restore();
      throw;
    }
    restore();
  }

  // A view touches no bytes and takes no time.
  void RunView() {
    RunKernel();
    for (IValue& value : *stack_) value = ToDevice(value, nullptr);
  }

  Tensor ToDevice(const Tensor& cpu, OperatorRun* run) {
    if (!cpu.defined() || IsEmu(cpu)) return cpu;
    const auto original = originals_.find(cpu.unsafeGetTensorImpl());
    return original != originals_.end() ? original->second : aliases_.ToEmu(cpu, device_, run);
  }

  IValue ToDevice(const IValue& value, OperatorRun* run) {
    if (value.isTensor()) return ToDevice(value.toTensor(), run);
    if (!value.isTensorList()) return value;
    std::vector<Tensor> tensors = value.toTensorVector();
    for (Tensor& tensor : tensors) tensor = ToDevice(tensor, run);
    return c10::List<Tensor>(tensors);
  }

  const c10::OperatorHandle& op_;
  const FunctionSchema& schema_;
  Stack* const stack_;
  const std::size_t first_;
  int device_ = 0;
  bool has_generator_ = false;
  std::vector<Use> uses_;
  AliasMap aliases_;
  std::unordered_map<const c10::TensorImpl*, Tensor> originals_;
  std::vector<std::pair<Tensor, Tensor>> written_;
};

}  // namespace

KernelGuard::KernelGuard()
    : keys_(c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
            c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                                 c10::DispatchKey::DeferredInit})) {}

namespace {

// Devices without a kernel of their own get a composition for these; the CPU has kernels, and
// results are to be the CPU's.
void PreferCpuKernels(torch::Library& library) {
  const auto has_both = [](const c10::OperatorHandle& op) {
    const bool composed = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
                          op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
    return composed && op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
  };
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (name.name.rfind("aten::", 0) != 0 || !op || !op->hasSchema() || !has_both(*op)) continue;
    const std::string full =
        name.name + (name.overload_name.empty() ? "" : ".") + name.overload_name;
    library.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&Fallback>());
  }
}

}  // namespace

void Fallback(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
  Call(op, stack).Run();
}

}  // namespace restow::emulator

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&restow::emulator::Fallback>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { restow::emulator::PreferCpuKernels(m); }
