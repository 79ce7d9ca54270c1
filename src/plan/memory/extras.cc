// What a framework keeps beside the model for the whole run. Source: memory-model.md section 4.
#include "plan/memory/dims.h"
#include "plan/memory/memory.h"

namespace restow::plan {
namespace {

// cuBLASLt's workspace in TransformerEngine; PyTorch's cuBLAS workspace, one for the calling thread
// and one for autograd's; TE's grouped products have four streams with one each.
constexpr std::int64_t kTorchHandles = 2;
constexpr std::int64_t kGroupedStreams = 4;

std::int64_t LtWorkspace(const MemorySoftware& s) {
  if (!s.te) return 0;
  return s.generation >= 90 ? 32 * kMiB : 4 * kMiB;
}

// CUBLAS_WORKSPACE_CONFIG=:4096:8 of deterministic runs is 32 MiB on every generation.
std::int64_t TorchWorkspaces(const MemorySoftware& s) {
  if (s.generation == 0) return 0;
  return kTorchHandles * (s.generation >= 90 || s.deterministic ? 32 * kMiB : 8 * kMiB);
}

std::int64_t Workspaces(const MemorySoftware& s, const StageParameters& p) {
  if (!s.megatron_like) return TorchWorkspaces(s);
  const std::int64_t lt = LtWorkspace(s);
  std::int64_t sum = lt;
  // Stages that call a PyTorch product: output layer, router, unfused attention.
  if (p.last || p.has_experts || !s.fused_attention) sum += TorchWorkspaces(s);
  if (p.has_experts && s.moe_grouped) sum += kGroupedStreams * lt;
  return sum;
}

// One cached bf16 stand-in per distinct weight shape, and one for the output layer.
std::int64_t Placeholders(const MemorySoftware& s, const StageParameters& p) {
  std::int64_t elements = 0;
  if (s.placeholders_dense) elements += p.placeholders + p.output_table;
  if (s.placeholders_grouped) elements += p.grouped_placeholders;
  return s.element * elements;
}

std::int64_t ScoreBuffer(const MemorySoftware& s, const MicroShape& shape) {
  const bool own = s.framework != Framework::kDeepSpeed;  // its fork of 2022 allocates per call
  if (!s.megatron_like || !own || s.te || s.fused_attention) return 0;
  // Megatron-LM's own attention, which MindSpeed runs too, reuses one buffer of raw scores.
  const Job& job = s.job();
  const KindTable::Entry first{&job.model.stack.kinds.front(), -1};
  return s.element * DimsOf(s, first, shape).scores;
}

std::int64_t DeferredWgrad(const MemorySoftware& s, const StageParameters& p,
                           const MicroShape& shape) {
  if (!p.last || s.deferred_wgrad == 0) return 0;
  const std::int64_t hidden = s.job().model.hidden();
  const std::int64_t rows = p.output_table / hidden;
  return s.deferred_wgrad * s.element * Tokens(s.job(), shape) * (rows + hidden);
}

// DeepSpeed's ZeRO keeps one bucket to reduce and one to gather, 5e8 elements each
// (reduce_bucket_size, allgather_bucket_size), and lends a pipeline stage nothing smaller.
std::int64_t ZeroBuckets(const MemorySoftware& s) {
  return s.framework == Framework::kDeepSpeed ? 2 * s.element * 500'000'000 : 0;
}

}  // namespace

ExtraBytes PriceExtras(const MemorySoftware& software, const StageParameters& parameters,
                       const MicroShape& shape) {
  return {Bytes(Placeholders(software, parameters)), Bytes(Workspaces(software, parameters)),
          Bytes(ScoreBuffer(software, shape) + DeferredWgrad(software, parameters, shape) +
                ZeroBuckets(software))};
}

}  // namespace restow::plan
