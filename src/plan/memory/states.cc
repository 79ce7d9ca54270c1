// Weights, gradients and optimizer states of a stage with their sharding groups.
// Source: memory-model.md sections 3, 10 and 12.
#include <algorithm>

#include "plan/memory/memory.h"

namespace restow::plan {
namespace {

// Small tensors alive in MindSpeed's step (fitted on ascend-st-017, 032, 039, 044, 045).
constexpr double kNpuStepBytes = 0.05 * static_cast<double>(kGiB);

struct Shards {
  double dense = 1, expert = 1;
};

Shards ShardsOf(const Layout& layout) {
  int dense = layout.dp * layout.cp;
  int expert = std::max(1, dense * layout.tp / (layout.ep * layout.etp));
  if (layout.zero_span > 0) {
    dense = std::min(dense, layout.zero_span);
    expert = std::min(expert, layout.zero_span);
  }
  return {static_cast<double>(dense), static_cast<double>(expert)};
}

double Share(double dense, double expert, const Shards& shards, bool sharded) {
  return sharded ? dense / shards.dense + expert / shards.expert : dense + expert;
}

// Gathered weights: two layers and the tables once. Reduction: one layer's gradients as sent and as
// computed.
void AddGathered(const MemorySoftware& s, const StageParameters& p, const Shards& shards,
                 StateBytes* bytes) {
  const double compute = static_cast<double>(s.element);
  double layer = 0, tables = 0;
  if (shards.dense > 1) {
    layer += static_cast<double>(p.largest_layer);
    tables = static_cast<double>(p.embedding + p.head);
  }
  if (shards.expert > 1) layer += static_cast<double>(p.largest_expert_layer);
  if (s.framework == Framework::kDeepSpeed) {
    // ZeRO-3 gathers weight by weight, up to 1e9 elements at once (stage3_max_live_parameters); its
    // buckets are extras.
    const double live = std::max(1e9, static_cast<double>(p.largest_weight));
    bytes->gathered = WholeBytes(compute * std::min(live, 2 * layer + tables));
    bytes->reduce = WholeBytes(compute * std::min(static_cast<double>(p.largest_weight), layer));
    return;
  }
  bytes->gathered = WholeBytes(compute * (2 * layer + tables));
  bytes->reduce = WholeBytes((s.gradient_bytes + compute) * layer);
}

double StepTemporaries(const MemorySoftware& s, const StageParameters& p, const Shards& shards,
                       bool sharded, double elements) {
  if (!s.step_per_tensor) return s.step_bytes * elements;
  // An fp32 copy of the longest run of one parameter inside the rank's flat shard.
  const double dense = static_cast<double>(p.total.dense) / (sharded ? shards.dense : 1);
  const double expert =
      std::min(static_cast<double>(p.largest_expert_weight), static_cast<double>(p.total.expert)) /
      (sharded ? shards.expert : 1);
  const double run = std::max(std::min(static_cast<double>(p.largest_weight), dense), expert);
  return 4 * run + kNpuStepBytes;
}

}  // namespace

StateBytes PriceStates(const MemorySoftware& s, const StageParameters& p, const Layout& layout) {
  const Shards shards = ShardsOf(layout);
  const bool shard_weights = layout.zero >= 3;
  const bool group = shards.dense > 1 || shards.expert > 1;
  const double dense = static_cast<double>(p.total.dense);
  const double expert = static_cast<double>(p.total.expert);
  const double elements = Share(dense, expert, shards, layout.zero >= 1);
  const double all_dense = dense + static_cast<double>(p.total.frozen_dense);
  const double all_expert = expert + static_cast<double>(p.total.frozen_expert);

  // FSDP2 shards the fp32 parameter itself: it is the master, and the compute dtype is only
  // gathered.
  const bool merged = shard_weights && group && s.sharded_masters;
  const double weight = merged ? 0 : s.weight_bytes;

  StateBytes bytes;
  bytes.weights = WholeBytes(weight * Share(all_dense, all_expert, shards, shard_weights));
  bytes.gradients = WholeBytes(s.gradient_bytes * Share(dense, expert, shards, layout.zero >= 2));
  if (!s.optimizer_swapped) {
    const double tables = static_cast<double>(p.embedding + p.head);
    const double table_share = s.table_bytes * tables / (layout.zero >= 1 ? shards.dense : 1);
    const double copies = layout.zero == 0 ? s.unsharded_step_bytes * (dense + expert) : 0;
    bytes.optimizer = WholeBytes(s.optimizer_bytes * elements + table_share + copies);
    if (s.first_iteration) bytes.moments = WholeBytes(s.moment_bytes * elements + table_share);
  }
  if (merged && (p.total.frozen_dense > 0 || p.total.frozen_expert > 0)) {
    // Frozen parameters have no master; they are sharded in the dtype they were loaded in.
    bytes.weights =
        WholeBytes(s.weight_bytes * Share(all_dense - dense, all_expert - expert, shards, true));
  }
  if (s.late_gradients && layout.micro_batches == 1) bytes.late_gradients = bytes.gradients;
  // DDP keeps its buckets beside the gradients unless gradient_as_bucket_view is set.
  if (s.bucket_copy && layout.zero <= 1 && group) bytes.gradients += bytes.gradients;
  if (shard_weights && group) {
    AddGathered(s, p, shards, &bytes);
  } else if (s.weight_casts) {
    const double tables = static_cast<double>(p.embedding);
    bytes.gathered = WholeBytes(static_cast<double>(s.element) * (all_dense + all_expert - tables));
  }
  bytes.step = WholeBytes(StepTemporaries(s, p, shards, layout.zero >= 1, elements));
  return bytes;
}

}  // namespace restow::plan
