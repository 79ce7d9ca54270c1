// The words for enumerations, as files, flags and reports spell them.
#include "restow/base/check.h"
#include "restow/schema/activation_plan.h"
#include "restow/schema/cluster.h"
#include "restow/schema/report.h"
#include "restow/schema/strategy.h"
#include "restow/schema/training.h"

namespace restow {
namespace {

template <std::size_t N, class E>
const char* Pick(const char* const (&names)[N], E value) {
  const auto index = static_cast<std::size_t>(value);
  RESTOW_CHECK(index < N);
  return names[index];
}

}  // namespace

const char* Name(DType dtype) {
  static constexpr const char* names[] = {"fp32", "bf16", "fp16", "fp8", "fp4"};
  return Pick(names, dtype);
}
const char* Name(Framework framework) {
  static constexpr const char* names[] = {"megatron",    "torchtitan",    "torch",    "mindspeed",
                                          "mindformers", "hyperparallel", "deepspeed"};
  return Pick(names, framework);
}
const char* Name(Optimizer optimizer) {
  static constexpr const char* names[] = {"adamw", "adam", "sgd", "muon", "adafactor"};
  return Pick(names, optimizer);
}
const char* Name(AttentionKernel kernel) {
  static constexpr const char* names[] = {"flash", "unfused"};
  return Pick(names, kernel);
}
const char* Name(LossKernel kernel) {
  static constexpr const char* names[] = {"fused", "unfused", "chunked"};
  return Pick(names, kernel);
}
const char* Name(Schedule schedule) {
  static constexpr const char* names[] = {"gpipe", "1f1b", "interleaved"};
  return Pick(names, schedule);
}
const char* Name(CpKind kind) {
  static constexpr const char* names[] = {"ring", "all-to-all"};
  return Pick(names, kind);
}
const char* Name(Recompute mode) {
  static constexpr const char* names[] = {"off", "selective", "full"};
  return Pick(names, mode);
}
std::string Name(const RankOrder& order) {
  static constexpr const char* names[] = {"tp", "cp", "ep", "dp", "pp"};
  std::string text;
  for (const Axis axis : order) {
    if (!text.empty()) text += '-';
    text += Pick(names, axis);
  }
  return text;
}
const char* Name(MemoryTerm term) {
  static constexpr const char* names[] = {"weights",       "gradients", "optimizer", "placeholders",
                                          "workspaces",    "buffers",   "gathered",  "reduce",
                                          "activations",   "working",   "loss_head", "mtp",
                                          "optimizer_step"};
  static_assert(sizeof(names) / sizeof(names[0]) == kMemoryTerms);
  return Pick(names, term);
}
const char* Name(TimeTerm term) {
  static constexpr const char* names[] = {
      "matmul",          "attention", "elementwise",  "routing",         "head",
      "tower",           "recompute", "host",         "tensor_parallel", "context_parallel",
      "expert_parallel", "bubble",    "pipeline_p2p", "data_parallel",   "optimizer",
      "straggle",        "fixed"};
  static_assert(sizeof(names) / sizeof(names[0]) == kTimeTerms);
  return Pick(names, term);
}
const char* Name(Phase phase) {
  static constexpr const char* names[] = {"load",         "forward",       "backward",
                                          "loss forward", "loss backward", "optimizer step"};
  return Pick(names, phase);
}
const char* Name(Verdict verdict) {
  static constexpr const char* names[] = {"wins", "loses", "refused"};
  return Pick(names, verdict);
}
const char* Name(ActivationMode mode) {
  static constexpr const char* names[] = {"keep", "recompute", "selective", "swap",
                                          "swap+recompute"};
  return Pick(names, mode);
}

}  // namespace restow
