#include "plan/search/tables.h"

#include <algorithm>

#include "plan/price/candidate.h"

namespace restow::plan {
namespace {

// Stages are alike when they hold the same kinds; where globs freeze single layers, which ones
// counts.
bool Alike(std::vector<Chunk> a, std::vector<Chunk> b, bool layers_differ) {
  if (!layers_differ) {
    for (Chunk& chunk : a) chunk.first_layer = 0;
    for (Chunk& chunk : b) chunk.first_layer = 0;
  }
  return a == b;
}

// Whether a chunk after the first costs what the one before it costs: the same layers, neither end
// of the model, and both handed their input by another stage.
bool Repeats(const std::vector<Chunk>& chunks, int stage, std::size_t c, bool layers_differ) {
  if (c == 0 || (stage == 0 && c == 1)) return false;
  return Alike({chunks[c]}, {chunks[c - 1]}, layers_differ);
}

StageMoments SummariseMoments(const std::vector<Moment>& moments, int vpp) {
  StageMoments stage;
  stage.most_forward.assign(static_cast<std::size_t>(vpp), 0);
  stage.most_backward = stage.most_forward;
  for (const Moment& moment : moments) {
    int alive = 0;
    for (const int n : moment.alive) alive += n;
    auto& most = moment.forward ? stage.most_forward : stage.most_backward;
    int& of_chunk = most[static_cast<std::size_t>(moment.chunk)];
    of_chunk = std::max(of_chunk, alive);
    stage.running.push_back({moment.chunk, moment.forward});
    stage.alive.insert(stage.alive.end(), moment.alive.begin(), moment.alive.end());
  }
  return stage;
}

bool SaveAlike(const std::vector<ChunkBytes>& chunks) {
  for (const ChunkBytes& chunk : chunks) {
    if (chunk.saved != chunks.front().saved) return false;
  }
  return true;
}

// The sum over the moments; counts do where all chunks save alike.
Bytes LargestInFlight(const StageMoments& stage, const std::vector<ChunkBytes>& chunks) {
  Bytes largest{};
  if (SaveAlike(chunks)) {
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const ChunkBytes& chunk = chunks[c];
      largest = std::max({largest, chunk.saved * stage.most_forward[c] + chunk.forward_extra,
                          chunk.saved * stage.most_backward[c] + chunk.backward_extra});
    }
    return largest;
  }
  const int* alive = stage.alive.data();
  for (const StageMoments::Running& running : stage.running) {
    const ChunkBytes& chunk = chunks[static_cast<std::size_t>(running.chunk)];
    Bytes sum = running.forward ? chunk.forward_extra : chunk.backward_extra;
    for (const ChunkBytes& other : chunks) sum += other.saved * *alive++;
    largest = std::max(largest, sum);
  }
  return largest;
}

}  // namespace

Tables::Tables(const Context& context, const std::vector<RecomputePlan>& plans)
    : context_(context), plans_(plans) {
  for (const RecomputePlan& plan : plans) {
    used_[static_cast<std::size_t>(plan.mode)] = true;
    for (const Recompute mode : plan.layers) used_[static_cast<std::size_t>(mode)] = true;
  }
}

ShapeCosts& Tables::Shape(const Layout& layout) {
  const MicroShape shape = LayerShape(layout);
  const auto [place, fresh] = shapes_.try_emplace(ShapeKey{shape.micro_batch, shape.dp, shape.pp});
  ShapeCosts& costs = place->second;
  if (!fresh) return costs;
  costs.shape = shape;
  for (const KindTable::Entry& kind : context_.kinds.entries) {
    auto& bytes = costs.bytes.emplace_back();
    for (std::size_t mode = 0; mode < kRecomputeModes; ++mode) {
      if (!used_[mode]) continue;
      bytes[mode] = PriceLayerBytes(context_.software, kind, shape, static_cast<Recompute>(mode));
    }
  }
  for (const RecomputePlan& plan : plans_) {
    costs.head.push_back(PriceHeadBytes(context_.software, context_.kinds, shape, EdgeMode(plan)));
  }
  return costs;
}

void Tables::PriceSeconds(ShapeCosts& costs) const {
  for (const KindTable::Entry& kind : context_.kinds.entries) {
    costs.seconds.push_back(PriceLayerModes(context_.machine, kind, costs.shape));
  }
  costs.edges = PriceEdges(context_.machine, costs.shape);
}

const SplitClasses& Tables::Split(int pp, int vpp) {
  const auto [place, fresh] = splits_.try_emplace(SplitKey{pp, vpp});
  SplitClasses& split = place->second;
  if (!fresh) return split;
  for (const RecomputePlan& plan : plans_) {
    split.of_plan.push_back(SplitStages(context_.job, context_.kinds, pp, vpp, plan));
  }
  // Uniform plans cut all stages alike; a per-layer plan is alone. So the first plan decides.
  const StageSplit& stages = split.of_plan.front();
  const bool layers_differ = !context_.job.training.frozen.empty();
  for (int stage = 0; stage < pp; ++stage) {
    const auto& chunks = stages.chunks[static_cast<std::size_t>(stage)];
    int found = -1;
    for (int c = 0; c < split.classes() && found < 0; ++c) {
      const auto first = static_cast<std::size_t>(split.first_stage[static_cast<std::size_t>(c)]);
      if (Alike(stages.chunks[first], chunks, layers_differ)) found = c;
    }
    if (found < 0) {
      found = split.classes();
      split.first_stage.push_back(stage);
      auto& repeats = split.repeats.emplace_back();
      for (std::size_t k = 0; k < chunks.size(); ++k) {
        repeats.push_back(Repeats(chunks, stage, k, layers_differ));
      }
      split.stages_in_class.push_back(0);
    }
    split.class_of_stage.push_back(found);
    ++split.stages_in_class[static_cast<std::size_t>(found)];
  }
  return split;
}

const ClassParameters& Tables::Parameters(const Layout& layout) {
  const auto [place, fresh] = parameters_.try_emplace(
      ParameterKey{layout.tp, layout.ep, layout.etp, layout.pp, layout.vpp});
  ClassParameters& parameters = place->second;
  if (!fresh) return parameters;
  const SplitClasses& split = Split(layout.pp, layout.vpp);
  for (const int stage : split.first_stage) {
    parameters.of_class.push_back(
        PriceStageParameters(context_.software, context_.kinds,
                             split.of_plan.front().chunks[static_cast<std::size_t>(stage)],
                             layout.tp, layout.ep, layout.etp, layout.pp));
  }
  parameters.traffic = TrafficOf(context_.job, parameters.of_class);
  parameters.traffic.layers_per_stage =
      static_cast<double>(context_.job.model.stack.layers()) / layout.pp;
  return parameters;
}

const std::vector<StageMoments>& Tables::Moments(const Layout& layout) {
  const PipelineShape shape = WithoutRepetitions(PipelineOf(context_.job, layout));
  const auto [place, fresh] =
      moments_.try_emplace(MomentKey{shape.schedule, shape.pp, shape.vpp, shape.micro_batches});
  std::vector<StageMoments>& moments = place->second;
  if (!fresh) return moments;
  for (int stage = 0; stage < shape.pp; ++stage) {
    moments.push_back(SummariseMoments(PeakMoments(shape, stage), shape.vpp));
  }
  return moments;
}

std::vector<Bytes>& Tables::FirstActivations(const Layout& layout, const ShapeCosts& shape,
                                             const SplitClasses& split, int plan) {
  const auto at = static_cast<std::size_t>(plan);
  const std::vector<StageMoments>& moments = Moments(layout);
  const auto classes = static_cast<std::size_t>(split.classes());
  if (chunks_.size() < classes) chunks_.resize(classes);
  activations_.resize(classes);
  for (std::size_t c = 0; c < classes; ++c) {
    const int stage = split.first_stage[c];
    const auto& of_stage = split.of_plan[at].chunks[static_cast<std::size_t>(stage)];
    std::vector<ChunkBytes>& chunks = chunks_[c];
    chunks.resize(of_stage.size());
    for (std::size_t k = 0; k < of_stage.size(); ++k) {
      chunks[k] = split.repeats[c][k]
                      ? chunks[k - 1]
                      : AssembleChunk(context_.software, shape.shape, of_stage[k], shape.bytes,
                                      shape.head[at], stage, static_cast<int>(k));
    }
    activations_[c] = LargestInFlight(moments[static_cast<std::size_t>(stage)], chunks);
  }
  return activations_;
}

void Tables::AddOtherStages(const Layout& layout, const SplitClasses& split,
                            std::vector<Bytes>& activations) {
  const std::vector<StageMoments>& moments = Moments(layout);
  for (std::size_t stage = 0; stage < moments.size(); ++stage) {
    const auto c = static_cast<std::size_t>(split.class_of_stage[stage]);
    if (static_cast<int>(stage) == split.first_stage[c]) continue;
    activations[c] = std::max(activations[c], LargestInFlight(moments[stage], chunks_[c]));
  }
}

Bytes Tables::LeastActivations(const Layout& layout, const ShapeCosts& shape,
                               const SplitClasses& split, int plan) const {
  // A stated group may hold fewer; an offloaded layer holds nothing in between.
  const bool grouped = context_.job.training.options.interleave_group.has_value();
  if ((layout.vpp > 1 && grouped) || context_.software.attention_offloaded) return Bytes(0);
  Bytes saved{};
  for (const Chunk& chunk : split.of_plan[static_cast<std::size_t>(plan)].chunks.front()) {
    for (const LayerRun& run : chunk.runs) {
      const auto kind = static_cast<std::size_t>(run.kind);
      saved += shape.bytes[kind][static_cast<std::size_t>(run.mode)].saved * run.count;
    }
  }
  return saved * std::min(layout.micro_batches, layout.pp);
}

StageSeconds Tables::Stages(ShapeCosts& shape, const SplitClasses& split, int plan) const {
  if (shape.seconds.empty()) PriceSeconds(shape);
  return AssembleStageClasses(context_.machine, context_.kinds,
                              split.of_plan[static_cast<std::size_t>(plan)], split.first_stage,
                              split.stages_in_class, shape.seconds, shape.edges);
}

}  // namespace restow::plan
