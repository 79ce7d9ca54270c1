#include "plan/price/candidate.h"

#include <algorithm>

#include "plan/pipeline/in_flight.h"
#include "plan/pipeline/stages.h"

namespace restow::plan {
namespace {

struct LayerTables {
  LayerBytesTable bytes;
  LayerSecondsTable seconds;
};

LayerTables PriceLayers(const Context& context, const MicroShape& shape) {
  LayerTables tables;
  for (const KindTable::Entry& kind : context.kinds.entries) {
    std::array<LayerBytes, kRecomputeModes> bytes;
    std::array<LayerSeconds, kRecomputeModes> seconds;
    for (int mode = 0; mode < kRecomputeModes; ++mode) {
      const auto at = static_cast<std::size_t>(mode);
      bytes[at] = PriceLayerBytes(context.software, kind, shape, static_cast<Recompute>(mode));
      seconds[at] = PriceLayerSeconds(context.machine, kind, shape, static_cast<Recompute>(mode));
    }
    tables.bytes.push_back(bytes);
    tables.seconds.push_back(seconds);
  }
  return tables;
}

StageBytes PriceStage(const Context& context, const Layout& layout, const MicroShape& shape,
                      const StageSplit& split, int stage, const StageParameters& parameters,
                      const LayerBytesTable& layer_bytes, const HeadBytes& head) {
  const Job& job = context.job;
  const std::vector<Chunk>& chunks = split.chunks[static_cast<std::size_t>(stage)];
  std::vector<ChunkBytes> bytes;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    bytes.push_back(AssembleChunk(context.software, shape, chunks[c], layer_bytes, head, stage,
                                  static_cast<int>(c)));
  }
  const InFlightPeak in_flight = PeakInFlight(PeakMoments(PipelineOf(job, layout), stage), bytes);
  return AssembleStage(context.software, shape, chunks, bytes, in_flight,
                       PriceStates(context.software, parameters, layout),
                       PriceExtras(context.software, parameters, shape), head, layer_bytes, stage);
}

// Devices between two neighbouring stages in the rank order.
int StageStride(const Layout& layout) {
  int stride = 1;
  for (const Axis axis : layout.order) {
    if (axis == Axis::kPp) break;
    if (axis == Axis::kTp) stride *= layout.tp;
    if (axis == Axis::kCp) stride *= layout.cp;
    if (axis == Axis::kDp) stride *= layout.dp;
  }
  return stride;
}

std::vector<StageRecompute> CountRecompute(const Context& context, const StageSplit& split) {
  std::vector<StageRecompute> stages;
  for (const std::vector<Chunk>& chunks : split.chunks) {
    StageRecompute counts;
    for (const Chunk& chunk : chunks) {
      for (const LayerRun& run : chunk.runs) {
        if (context.kinds.entries[static_cast<std::size_t>(run.kind)].tower >= 0) continue;
        counts.layers += run.count;
        if (run.mode == Recompute::kOff) counts.off += run.count;
        if (run.mode == Recompute::kSelective) counts.selective += run.count;
        if (run.mode == Recompute::kFull) counts.full += run.count;
      }
    }
    stages.push_back(counts);
  }
  return stages;
}

// The mode stands on every part of a multimodal model, in the order data flows through it.
std::vector<SubmoduleRecompute> StateOnSubmodules(const Context& context,
                                                  const RecomputePlan& recompute) {
  const Model& model = context.job.model;
  std::vector<SubmoduleRecompute> parts;
  if (!model.multimodal()) return parts;
  const Recompute mode = recompute.mode;
  const bool selective = mode == Recompute::kSelective;
  for (std::size_t t = 0; t < model.towers.size(); ++t) {
    const auto base = static_cast<std::size_t>(context.kinds.tower_base[t]);
    parts.push_back({model.towers[t].name, mode,
                     selective ? SelectiveKeeps(context.software, context.kinds.entries[base])
                               : std::vector<std::string>{}});
  }
  if (model.projector_parameters > 0) parts.push_back({"projector", mode, {}});
  parts.push_back({"language_model", EdgeMode(recompute),
                   selective ? SelectiveKeeps(context.software, context.kinds.entries.front())
                             : std::vector<std::string>{}});
  return parts;
}

void PriceMemory(const Context& context, const MicroShape& shape, const StageSplit& split,
                 const std::vector<StageParameters>& parameters, const LayerBytesTable& layer_bytes,
                 Candidate& candidate) {
  const Job& job = context.job;
  const HeadBytes head =
      PriceHeadBytes(context.software, context.kinds, shape, EdgeMode(candidate.recompute));
  StageBytes worst;
  for (int stage = 0; stage < split.stages(); ++stage) {
    const StageBytes bytes =
        PriceStage(context, candidate.layout, shape, split, stage,
                   parameters[static_cast<std::size_t>(stage)], layer_bytes, head);
    candidate.ranks.push_back({stage, bytes.peak, bytes.phase});
    if (stage > 0 && bytes.peak <= worst.peak) continue;
    worst = bytes;
    candidate.worst_stage = stage;
  }
  candidate.worst_rank = candidate.worst_stage * StageStride(candidate.layout);
  candidate.peak = worst.peak;
  candidate.worst_phase = worst.phase;
  candidate.memory = worst.terms;
  const ReservedBand band = PriceReserved(context.software, worst);
  candidate.reserved_low = band.low;
  candidate.reserved_high = band.high;
  candidate.reserved = band.likely;
  candidate.process = band.process;
  candidate.capacity = job.cluster.device.memory;
  candidate.outside = OutsideAllocator(job);
  candidate.limit = MemoryLimit(job);
  candidate.fits = candidate.peak <= candidate.limit;
}

void PriceTime(const Context& context, const MicroShape& shape, const StageSplit& split,
               const std::vector<StageParameters>& parameters,
               const LayerSecondsTable& layer_seconds, Candidate& candidate) {
  const Job& job = context.job;
  const EdgeSeconds edges = PriceEdges(context.machine, shape);
  const StageSeconds stages =
      AssembleStages(context.machine, context.kinds, split, layer_seconds, edges);
  const StepSeconds step = AssembleStep(context.machine, candidate.layout, context.kinds, split,
                                        layer_seconds, edges, stages, TrafficOf(job, parameters));
  candidate.step = step.total;
  candidate.time = step.terms;
  candidate.hidden = step.hidden;
  const double device_seconds = step.total.value() * job.cluster.devices;
  candidate.tokens_per_s_per_device =
      static_cast<double>(job.training.global_batch) * job.training.sequence / device_seconds;
  const auto peak = job.cluster.device.peak.find(job.training.precision.compute);
  if (peak != job.cluster.device.peak.end()) {
    candidate.mfu = 100 * (ModelFlops(job) / peak->second) / step.total;
  }
}

}  // namespace

StageTraffic TrafficOf(const Job& job, const std::vector<StageParameters>& stages) {
  StageTraffic traffic;
  for (const StageParameters& stage : stages) {
    const std::int64_t table = stage.embedding + stage.head;
    const std::int64_t dense = std::max<std::int64_t>(0, stage.total.dense - table);
    traffic.dense = std::max(traffic.dense, static_cast<double>(dense));
    traffic.expert = std::max(traffic.expert, static_cast<double>(stage.total.expert));
    traffic.frozen_dense =
        std::max(traffic.frozen_dense, static_cast<double>(stage.total.frozen_dense));
    traffic.frozen_expert =
        std::max(traffic.frozen_expert, static_cast<double>(stage.total.frozen_expert));
    traffic.table =
        std::max(traffic.table, static_cast<double>(std::min(table, stage.total.dense)));
  }
  traffic.layers_per_stage =
      static_cast<double>(job.model.stack.layers()) / static_cast<double>(stages.size());
  return traffic;
}

PipelineShape PipelineOf(const Job& job, const Layout& layout) {
  PipelineShape shape;
  shape.schedule = layout.pp == 1 ? Schedule::k1F1B : layout.schedule;
  shape.pp = layout.pp;
  shape.vpp = layout.vpp;
  shape.micro_batches = layout.micro_batches;
  shape.group = job.training.options.interleave_group.value_or(0);
  return shape;
}

Seconds PriceStep(const Context& context, const Layout& layout, const RecomputePlan& recompute) {
  const Job& job = context.job;
  const StageSplit split = SplitStages(job, context.kinds, layout.pp, layout.vpp, recompute);
  std::vector<StageParameters> parameters;
  for (const std::vector<Chunk>& chunks : split.chunks) {
    parameters.push_back(PriceStageParameters(context.software, context.kinds, chunks, layout.tp,
                                              layout.ep, layout.etp, layout.pp));
  }
  const MicroShape shape = LayerShape(layout);
  LayerSecondsTable layers;
  for (const KindTable::Entry& kind : context.kinds.entries) {
    layers.push_back(PriceLayerModes(context.machine, kind, shape));
  }
  const EdgeSeconds edges = PriceEdges(context.machine, shape);
  const StageSeconds stages = AssembleStages(context.machine, context.kinds, split, layers, edges);
  return StepTotal(context.machine, layout, stages, TrafficOf(job, parameters));
}

Bytes MemoryLimit(const Job& job) {
  return job.cluster.device.memory - job.Margin() - OutsideAllocator(job);
}

Candidate PriceCandidate(const Context& context, const Layout& layout,
                         const RecomputePlan& recompute) {
  const Job& job = context.job;
  Candidate candidate;
  candidate.layout = layout;
  candidate.recompute = recompute;
  const MicroShape shape = LayerShape(layout);
  const StageSplit split = SplitStages(job, context.kinds, layout.pp, layout.vpp, recompute);
  std::vector<StageParameters> parameters;
  for (const std::vector<Chunk>& chunks : split.chunks) {
    parameters.push_back(PriceStageParameters(context.software, context.kinds, chunks, layout.tp,
                                              layout.ep, layout.etp, layout.pp));
  }
  const LayerTables tables = PriceLayers(context, shape);
  PriceMemory(context, shape, split, parameters, tables.bytes, candidate);
  PriceTime(context, shape, split, parameters, tables.seconds, candidate);
  candidate.stage_recompute = CountRecompute(context, split);
  candidate.submodules = StateOnSubmodules(context, recompute);
  if (recompute.mode == Recompute::kSelective)
    candidate.selective_note = SelectiveNote(context.software);
  return candidate;
}

}  // namespace restow::plan
