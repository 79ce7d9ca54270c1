// The operators that need more than the CPU's kernel: memory, views, copies, choices of backend.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "emulator/alias.h"
#include "emulator/allocators.h"
#include "emulator/device.h"
#include "emulator/fallback.h"
#include "emulator/memory.h"

namespace restow::emulator {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;

c10::DeviceGuard GuardOf(std::optional<c10::Device> device) {
  const c10::Device wanted = device.value_or(c10::Device(c10::DeviceType::PrivateUse1));
  const int index = wanted.has_index() ? wanted.index() : CurrentDevice();
  return c10::DeviceGuard(
      c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)));
}

void CheckNotPinned(std::optional<bool> pinned) {
  TORCH_CHECK(!pinned.value_or(false), "only CPU tensors can be pinned, not tensors on emu");
}

// Tells opaque memory what its elements are.
Tensor Typed(const Tensor& tensor) {
  SetElements(tensor.storage().data(), c10::toString(tensor.scalar_type()));
  return tensor;
}

Tensor Empty(c10::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
             std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
             std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  CheckNotPinned(pinned);
  const c10::DeviceGuard guard = GuardOf(device);
  return Typed(at::detail::empty_generic(sizes, DeviceAllocator(),
                                         DispatchKeySet(DispatchKey::PrivateUse1),
                                         c10::dtype_or_default(dtype), format));
}

Tensor EmptyStrided(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                    std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                    std::optional<at::Device> device, std::optional<bool> pinned) {
  CheckNotPinned(pinned);
  const c10::DeviceGuard guard = GuardOf(device);
  return Typed(at::detail::empty_strided_generic(sizes, strides, DeviceAllocator(),
                                                 DispatchKeySet(DispatchKey::PrivateUse1),
                                                 c10::dtype_or_default(dtype)));
}

// Torch's own has no memory, which the CPU's kernels would read.
Tensor Zeros(c10::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
             std::optional<at::Layout> layout, std::optional<at::Device> device,
             std::optional<bool> pinned) {
  return Empty(sizes, dtype, layout, device, pinned, std::nullopt).zero_();
}

const Tensor& Resize(const Tensor& self, c10::IntArrayRef sizes,
                     std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(self.device());
  const OperatorRun run(CurrentStream(self.device().index()), "aten::resize_",
                        {UseOf(self, true, false)});
  return at::native::resize_(self, sizes, format);
}

// --- copies ---

Direction DirectionOf(const Tensor& from, const Tensor& to) {
  if (!IsEmu(from)) return Direction::kHostToDevice;
  return IsEmu(to) ? Direction::kBetweenDevices : Direction::kDeviceToHost;
}

// A CPU tensor over the bytes of either side. Memory of the emulator is held by its block; other
// memory by its tensor, as the host waits for the copy anyway.
Tensor Side(const Tensor& tensor) {
  const bool ours = IsEmu(tensor) || IsPinned(tensor.const_data_ptr());
  return ours ? AliasMap().ToCpu(tensor) : tensor;
}

void RunCopyKernel(const Tensor& from, const Tensor& to) {
  const Tensor source = Side(from);
  const Tensor target = Side(to);
  const KernelGuard guard;
  target.copy_(source);
}

void CopyWithinDevice(const Tensor& from, const Tensor& to) {
  const c10::DeviceGuard guard(to.device());
  const OperatorRun run(CurrentStream(to.device().index()), "aten::copy_",
                        {UseOf(from, true, false), UseOf(to, false, true)});
  RunCopyKernel(from, to);
}

Copy PrepareCopy(const Tensor& from, const Tensor& to, StreamName stream) {
  Copy copy;
  copy.stream = stream;
  copy.direction = DirectionOf(from, to);
  copy.peer = IsEmu(to) ? to.device().index() : 0;
  copy.bytes = from.numel() * from.element_size();
  copy.uses = {UseOf(from, true, false), UseOf(to, false, true)};
  copy.move = [source = Side(from), target = Side(to)] {
    const KernelGuard guard;
    target.copy_(source);
  };
  return copy;
}

void CopyBetweenDevices(const Tensor& from, const Tensor& to) {
  const StreamName source = CurrentStream(from.device().index());
  const StreamName target = CurrentStream(to.device().index());
  Event event;
  RecordEvent(event, target);
  WaitEvent(event, source);
  Launch(PrepareCopy(from, to, source));
  RecordEvent(event, source);
  WaitEvent(event, target);
}

// Pageable host memory makes the host wait: nothing else keeps it from changing meanwhile.
void CopyAcrossLink(const Tensor& from, const Tensor& to, bool non_blocking) {
  const Tensor& host = IsEmu(from) ? to : from;
  const StreamName stream = CurrentStream((IsEmu(from) ? from : to).device().index());
  const bool pinned = IsPinned(host.const_data_ptr());
  Copy copy = PrepareCopy(from, to, stream);
  copy.wait = !non_blocking || !pinned;
  Launch(std::move(copy));
  if (pinned) RecordPinned(host.storage().data(), stream.device, stream.stream);
}

Tensor CopyFrom(const Tensor& from, const Tensor& to, bool non_blocking) {
  if (from.numel() == 0 || to.numel() == 0) return to;
  if (IsEmu(from) && IsEmu(to)) {
    if (from.device() == to.device()) {
      CopyWithinDevice(from, to);
    } else {
      CopyBetweenDevices(from, to);
    }
  } else {
    CopyAcrossLink(from, to, non_blocking);
  }
  return to;
}

Tensor CopyFromAndResize(const Tensor& from, const Tensor& to) {
  to.resize_(from.sizes());
  return CopyFrom(from, to, false);
}

void RecordTensor(Tensor& self, at::Stream stream) {
  RecordStream(self.storage().data(), stream.device_index(), static_cast<int>(stream.id()));
}

// --- operators that choose a backend by device ---

// An operator over the CPU aliases of its tensors: `call(to_cpu)` returns CPU tensors.
template <typename Call>
auto OnCpu(const char* name, const std::vector<Tensor>& inputs, Call call) {
  const c10::DeviceGuard guard(inputs.front().device());
  const int device = inputs.front().device().index();
  std::vector<Use> uses;
  for (const Tensor& input : inputs) {
    if (input.defined()) uses.push_back(UseOf(input, true, false));
  }
  OperatorRun run(CurrentStream(device), name, std::move(uses));
  AliasMap aliases;
  const auto to_cpu = [&](const Tensor& tensor) {
    return tensor.defined() ? aliases.ToCpu(tensor) : tensor;
  };
  std::vector<Tensor> outputs;
  {
    const KernelGuard kernel;
    outputs = call(to_cpu);
  }
  for (Tensor& output : outputs) {
    if (output.defined()) output = aliases.ToEmu(output, device, &run);
  }
  return outputs;
}

// at::convolution picks its backend by device; on the CPU's tensors it picks the CPU's.
Tensor Convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                   c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation,
                   bool transposed, c10::IntArrayRef output_padding, std::int64_t groups) {
  const Tensor plain_bias = bias.value_or(Tensor());
  return OnCpu("aten::convolution", {input, weight, plain_bias}, [&](const auto& to_cpu) {
    return std::vector<Tensor>{at::convolution(to_cpu(input), to_cpu(weight), to_cpu(plain_bias),
                                               stride, padding, dilation, transposed,
                                               output_padding, groups)};
  })[0];
}

std::tuple<Tensor, Tensor, Tensor> ConvolutionBackward(
    const Tensor& grad, const Tensor& input, const Tensor& weight, c10::IntArrayRef stride,
    c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
    c10::IntArrayRef output_padding, std::int64_t groups, std::array<bool, 3> mask) {
  const std::vector<std::int64_t> bias{weight.size(transposed ? 1 : 0) * (transposed ? groups : 1)};
  auto made = OnCpu("aten::convolution_backward", {grad, input, weight}, [&](const auto& to_cpu) {
    auto [a, b, c] =
        at::convolution_backward(to_cpu(grad), to_cpu(input), to_cpu(weight), bias, stride, padding,
                                 dilation, transposed, output_padding, groups, mask);
    return std::vector<Tensor>{a, b, c};
  });
  return {made[0], made[1], made[2]};
}

// The CPU composes dropout of a multiplication by noise of 0 and 1 / (1 - p). Devices run a fused
// operator that saves a mask; here it multiplies by the CPU's noise, so that results are equal.
std::tuple<Tensor, Tensor> Dropout(const Tensor& input, double p, std::optional<bool> train) {
  const bool drop = train.value_or(true) && p > 0;
  const int device = input.device().index();
  auto made = OnCpu("aten::native_dropout", {input}, [&](const auto& to_cpu) {
    const Tensor cpu = to_cpu(input);
    if (!drop) return std::vector<Tensor>{cpu.clone(), at::ones_like(cpu, at::kBool)};
    const Tensor noise = at::empty_like(cpu);
    noise.bernoulli_(1 - p, CpuGenerator(DefaultGenerator(device)));
    const Tensor mask = noise.to(at::kBool);
    return std::vector<Tensor>{p == 1 ? at::zeros_like(cpu) : cpu * noise.div_(1 - p), mask};
  });
  return {made[0], made[1]};
}

Tensor DropoutBackward(const Tensor& grad, const Tensor& mask, double scale) {
  return OnCpu("aten::native_dropout_backward", {grad, mask}, [&](const auto& to_cpu) {
    const Tensor cpu = to_cpu(grad);
    if (scale == 0) return std::vector<Tensor>{at::zeros_like(cpu)};
    return std::vector<Tensor>{cpu * to_cpu(mask).to(cpu.scalar_type()).div_(1 / scale)};
  })[0];
}

Tensor AddBias(const Tensor& gates, const std::optional<Tensor>& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

// Devices get fused cells, which the CPU does not have: here they are composed of the device's
// operators, and autograd goes through them.
// Source: the formulas in the documentation of torch.nn.LSTM.
std::tuple<Tensor, Tensor, Tensor> LstmCell(const Tensor& input_gates, const Tensor& hidden_gates,
                                            const Tensor& cx,
                                            const std::optional<Tensor>& input_bias,
                                            const std::optional<Tensor>& hidden_bias) {
  const Tensor gates = AddBias(input_gates, input_bias) + AddBias(hidden_gates, hidden_bias);
  const auto parts = gates.chunk(4, 1);  // input, forget, cell, output
  const Tensor cy = at::sigmoid(parts[1]) * cx + at::sigmoid(parts[0]) * at::tanh(parts[2]);
  return {at::sigmoid(parts[3]) * at::tanh(cy), cy, Tensor()};
}

// Source: the formulas in the documentation of torch.nn.GRU.
std::tuple<Tensor, Tensor> GruCell(const Tensor& input_gates, const Tensor& hidden_gates,
                                   const Tensor& hx, const std::optional<Tensor>& input_bias,
                                   const std::optional<Tensor>& hidden_bias) {
  const auto in = AddBias(input_gates, input_bias).chunk(3, 1);  // reset, update, new
  const auto hidden = AddBias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor reset = at::sigmoid(in[0] + hidden[0]);
  const Tensor update = at::sigmoid(in[1] + hidden[1]);
  const Tensor fresh = at::tanh(in[2] + reset * hidden[2]);
  return {fresh + update * (hx - fresh), Tensor()};
}

// 0 is the math kernel, a composition of operators that the device has.
std::int64_t ChooseAttention(const Tensor& /*query*/, const Tensor& /*key*/,
                             const Tensor& /*value*/, const std::optional<Tensor>& /*mask*/,
                             double /*dropout*/, bool /*causal*/, std::optional<double> /*scale*/,
                             bool /*grouped*/) {
  return 0;
}

// `tensor.data = ...` and Module::to change the tensor in place between dense tensors of the CPU
// and the device, as between CPU and CUDA.
bool CompatibleShallowCopy(const Tensor& self, const Tensor& from) {
  const auto dense = [](DispatchKeySet keys) {
    return keys.has_any(DispatchKeySet({DispatchKey::CPU, DispatchKey::PrivateUse1}));
  };
  return self.key_set() == from.key_set() || (dense(self.key_set()) && dense(from.key_set()));
}

struct Silence final : c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

// Torch warns of every operator that is replaced; this one is replaced on purpose.
const bool shallow_copies = [] {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  static auto* const library =
      new torch::Library(torch::Library::IMPL, "aten", std::nullopt, __FILE__, __LINE__);
  library->impl("_has_compatible_shallow_copy_type", TORCH_FN(CompatibleShallowCopy));
  return true;
}();

}  // namespace
}  // namespace restow::emulator

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using namespace restow::emulator;  // NOLINT(build/namespaces): one registration table
  m.impl("empty.memory_format", TORCH_FN(Empty));
  m.impl("empty_strided", TORCH_FN(EmptyStrided));
  m.impl("_efficientzerotensor", TORCH_FN(Zeros));
  m.impl("resize_", TORCH_FN(Resize));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("set_.source_Storage", TORCH_FN(at::native::set_));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(at::native::set_storage_cpu_));
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  m.impl("set_", TORCH_FN(at::native::set_cpu_));
  m.impl("_copy_from", TORCH_FN(CopyFrom));
  m.impl("_copy_from_and_resize", TORCH_FN(CopyFromAndResize));
  m.impl("record_stream", TORCH_FN(RecordTensor));
  m.impl("convolution_overrideable", TORCH_FN(Convolution));
  m.impl("convolution_backward_overrideable", TORCH_FN(ConvolutionBackward));
  m.impl("_fused_sdp_choice", TORCH_FN(ChooseAttention));
  m.impl("native_dropout", TORCH_FN(Dropout));
  m.impl("native_dropout_backward", TORCH_FN(DropoutBackward));
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(LstmCell));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(GruCell));
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(restow::emulator::LstmCell));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(restow::emulator::GruCell));
}

// The copies themselves resolve lazy conjugation and negation of what they read: the CPU's kernel
// knows both, and torch's fallback would come back to `_copy_from` without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

// The lists of operators that torch lowers, raises or promotes on every device.
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  using at::IntArrayRef;  // the names that torch's lists use
  using at::Scalar;
  using at::ScalarType;
  using at::Tensor;
#define RESTOW_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define RESTOW_RAISE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define RESTOW_RAISE_SUM(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define RESTOW_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(RESTOW_LOWER)
  AT_FORALL_FP32(RESTOW_RAISE)
  AT_FORALL_FP32_SET_OPT_DTYPE(RESTOW_RAISE_SUM)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(RESTOW_PROMOTE)
}
