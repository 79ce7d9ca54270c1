// Gradient reduction and weight gathering. Up to ZeRO-1 once per step: reduced under the last
// backward of a stage, gathered under its first forward. ZeRO-2 holds no whole gradient to add
// micro-batches into, so it reduces per layer and micro-batch; ZeRO-3 and FSDP gather so, too.
// Source: time-model.md section 2, "DP, ZeRO-1" and "FSDP/ZeRO-3".
#include <algorithm>

#include "plan/time/collective.h"
#include "plan/time/time.h"

namespace restow::plan {
namespace {

// What is left of `work` after `window` seconds of other work, of which a share always stands out.
double Exposed(double work, double share, double window) {
  return std::max(share * work, work - (1 - share) * window);
}

ExposedHidden Split(double exposed, double total) {
  return {Seconds(exposed), Seconds(std::max(0.0, total - exposed))};
}

int Span(const Layout& layout) {
  const int group = layout.dp * layout.cp;
  return layout.zero_span > 0 ? std::min(layout.zero_span, group) : group;
}

struct StepTraffic {
  double reduce = 0, gather = 0;
};

// Dense gradients and weights, tables included.
StepTraffic DenseTraffic(const Machine::Constants& k, const Layout& layout, double parameters) {
  StepTraffic t;
  if (parameters <= 0 || layout.dp * layout.cp <= 1) return t;
  const RankGroup group = DataGroup(ShapeOf(layout));
  const RingPath path = PathOf(k, group);
  t.reduce = GatherSeconds(path, parameters * k.gradient_bytes);
  if (layout.zero == 0) {
    t.gather = t.reduce;  // an all-reduce
    return t;
  }
  const int span = Span(layout);
  const bool whole = span == group.size();
  const RankGroup shard = whole ? group : SplitInner(group, span).shard;
  t.gather = whole ? GatherSeconds(path, parameters * k.weight_bytes)
                   : GatherSeconds(k, parameters * k.weight_bytes, shard);
  if (k.software->reduce == ReduceStyle::kRing) return t;
  t.reduce *= 2 * k.zero_ideal;
  t.gather *= k.zero_ideal;
  if (k.software->reduce == ReduceStyle::kBroadcast &&
      MembersInside(shard, k.links.front().size) < span) {
    t.gather += k.broadcast * span;
  }
  return t;
}

StepTraffic ExpertTraffic(const Machine::Constants& k, const Layout& layout, double parameters) {
  StepTraffic t;
  if (parameters <= 0) return t;
  const RingPath path = PathOf(k, ExpertDataGroup(ShapeOf(layout)));
  t.reduce = GatherSeconds(path, parameters * k.gradient_bytes);
  t.gather = layout.zero == 0 ? t.reduce : GatherSeconds(path, parameters * k.weight_bytes);
  return t;
}

ExposedHidden OncePerStep(const Machine::Constants& k, const Layout& layout,
                          const StageTraffic& traffic, const StageSeconds& stages) {
  const StepTraffic dense = DenseTraffic(k, layout, traffic.dense + traffic.table);
  const StepTraffic expert = ExpertTraffic(k, layout, traffic.expert);
  const double reduce = dense.reduce + expert.reduce, gather = dense.gather + expert.gather;
  const double layers = traffic.layers_per_stage;
  const double exposed = Exposed(reduce, k.data_exposed, layers * stages.layer_backward.value()) +
                         Exposed(gather, k.data_exposed, layers * stages.layer_forward.value());
  return Split(exposed, reduce + gather);
}

// ZeRO-2: each layer's gradients are scattered behind its backward, every micro-batch; weights are
// gathered once per step.
ExposedHidden ReducedPerMicroBatch(const Machine::Constants& k, const Layout& layout,
                                   const StageTraffic& traffic, const StageSeconds& stages) {
  const StepTraffic dense = DenseTraffic(k, layout, traffic.dense + traffic.table);
  const StepTraffic expert = ExpertTraffic(k, layout, traffic.expert);
  const double reduce = dense.reduce + expert.reduce, gather = dense.gather + expert.gather;
  const double layers = traffic.layers_per_stage;
  const double exposed = layout.micro_batches * Exposed(reduce, k.data_exposed,
                                                        layers * stages.layer_backward.value()) +
                         Exposed(gather, k.data_exposed, layers * stages.layer_forward.value());
  return Split(exposed, layout.micro_batches * reduce + gather);
}

// Gather before forward, gather before backward, reduce-scatter after it, for one layer.
StepTraffic LayerTraffic(const Machine::Constants& k, const Layout& layout,
                         const StageTraffic& traffic, const RankGroup& shard) {
  const double layers = traffic.layers_per_stage;
  StepTraffic t;
  if (shard.size() > 1) {
    const RingPath path = PathOf(k, shard);
    t.gather =
        GatherSeconds(path, (traffic.dense + traffic.frozen_dense) * k.weight_bytes / layers);
    if (traffic.dense > 0) {
      t.reduce = GatherSeconds(path, traffic.dense * k.sharded_gradient_bytes / layers);
    }
  }
  const double experts = traffic.expert + traffic.frozen_expert;
  if (experts > 0) {
    const RingPath path = PathOf(k, ExpertDataGroup(ShapeOf(layout)));
    t.gather += GatherSeconds(path, experts * k.weight_bytes / layers);
    if (traffic.expert > 0) {
      t.reduce += GatherSeconds(path, traffic.expert * k.expert_gradient_bytes / layers);
    }
  }
  return t;
}

// Replicas of a shard add it up once per step, under the last backward.
double ReplicaSeconds(const Machine::Constants& k, const RankGroup& replicas, double parameters,
                      int span) {
  return 2 * GatherSeconds(k, parameters * k.sharded_gradient_bytes / span, replicas);
}

ExposedHidden PerMicroBatch(const Machine::Constants& k, const Layout& layout,
                            const StageTraffic& traffic, const StageSeconds& stages) {
  const double layers = traffic.layers_per_stage;
  if (layers <= 0) return {};
  const RankGroup group = DataGroup(ShapeOf(layout));
  const int span = Span(layout);
  const bool hybrid = span < group.size();
  const SplitGroups split = hybrid ? SplitInner(group, span) : SplitGroups{group, RankGroup{}};
  const StepTraffic t = LayerTraffic(k, layout, traffic, split.shard);
  const double forward = stages.layer_forward.value(), backward = stages.layer_backward.value();
  const double all = 2 * t.gather + t.reduce;
  const double late =
      std::max(0.0, t.gather - forward) + std::max(0.0, t.gather + t.reduce - backward);
  const double copies = group.size() > 1 ? traffic.dense / layers * k.copy_bytes / k.memory : 0.0;
  const double across = hybrid ? ReplicaSeconds(k, split.replicas, traffic.dense, span) : 0.0;
  const double exposed = layers * layout.micro_batches * (late + k.sharded_exposed * all + copies) +
                         std::max(k.data_exposed * across, across - layers * backward / 2);
  return Split(exposed, layers * layout.micro_batches * (all + copies) + across);
}

}  // namespace

ExposedHidden PriceDataParallel(const Machine& machine, const Layout& layout,
                                const StageTraffic& traffic, const StageSeconds& stages) {
  const Machine::Constants& k = machine.constants();
  if (layout.zero == 3) return PerMicroBatch(k, layout, traffic, stages);
  if (layout.zero == 2) return ReducedPerMicroBatch(k, layout, traffic, stages);
  return OncePerStep(k, layout, traffic, stages);
}

}  // namespace restow::plan
