#include "plan/time/step.h"

#include "plan/time/machine.h"

namespace restow::plan {
namespace {

Seconds& Term(TimeTerms& terms, TimeTerm term) { return terms[static_cast<std::size_t>(term)]; }

// The parts of a step before they are told apart by term.
struct Parts {
  double steady = 0;  // micro-batches times the pace-setting stage
  double bubble = 0;
  double p2p = 0, data = 0, optimizer = 0, fixed = 0;
  double straggle = 0;
  double total = 0;
};

// m slots of the slowest stage; filling and draining cost the other stages once, divided by the
// chunks of an interleaved schedule. GPipe fills and drains as 1F1B does.
void AddPipeline(const Machine::Constants& k, const Layout& layout, const StageSeconds& stages,
                 Parts& parts) {
  const double slowest = stages.slowest.value();
  parts.steady = layout.micro_batches * slowest * k.speed;
  parts.bubble = (stages.sum.value() - slowest) / layout.vpp * k.speed;
}

void AddUp(const Machine::Constants& k, Parts& parts) {
  const double sum =
      parts.steady + parts.bubble + parts.p2p + parts.data + parts.optimizer + parts.fixed;
  parts.straggle = sum * k.straggle;
  parts.total = sum + parts.straggle;
}

Parts PartsOf(const Machine& machine, const Layout& layout, const StageSeconds& stages,
              const ExposedHidden& p2p, const ExposedHidden& data, Seconds optimizer) {
  const Machine::Constants& k = machine.constants();
  Parts parts;
  AddPipeline(k, layout, stages, parts);
  parts.p2p = p2p.exposed.value();
  parts.data = data.exposed.value();
  parts.optimizer = optimizer.value();
  parts.fixed = k.fixed;
  AddUp(k, parts);
  return parts;
}

void AddTerms(const TimeTerms& from, double times, TimeTerms& to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i] * times;
}

void AddLayer(const LayerSeconds& layer, double times, StepSeconds& out) {
  AddTerms(layer.forward, times, out.terms);
  AddTerms(layer.backward, times, out.terms);
  AddTerms(layer.hidden, times, out.hidden);
  Term(out.terms, TimeTerm::kRecompute) += layer.recompute * times;
}

// Terms of the pace-setting stage for all micro-batches.
void AddPaceStage(const Machine& machine, const Layout& layout, const StageSplit& split,
                  const LayerSecondsTable& table, const EdgeSeconds& edges,
                  const StageSeconds& stages, StepSeconds& out) {
  const Model& model = machine.job().model;
  const double times = layout.micro_batches * machine.constants().speed;
  Seconds& head = Term(out.terms, TimeTerm::kHead);
  for (const Chunk& chunk : split.chunks[static_cast<std::size_t>(stages.pace)]) {
    for (const LayerRun& run : chunk.runs) AddLayer(LayerOf(table, run), run.count * times, out);
    if (chunk.embedding) head += edges.embedding * times;
    if (chunk.head) head += edges.head * times;
  }
  if (const LayerSeconds* mtp = MtpLayer(model, split, table)) {
    const double part = times * model.mtp_layers / split.stages();
    AddLayer(*mtp, part, out);
    head += (edges.head + edges.mtp) * part;
  }
}

}  // namespace

StepSeconds AssembleStep(const Machine& machine, const Layout& layout, const KindTable&,
                         const StageSplit& split, const LayerSecondsTable& layer_seconds,
                         const EdgeSeconds& edges, const StageSeconds& stages,
                         const StageTraffic& traffic) {
  const ExposedHidden p2p = PriceP2p(machine, layout);
  const ExposedHidden data = PriceDataParallel(machine, layout, traffic, stages);
  const Parts parts =
      PartsOf(machine, layout, stages, p2p, data, PriceOptimizer(machine, layout, traffic));
  StepSeconds out;
  out.total = Seconds(parts.total);
  AddPaceStage(machine, layout, split, layer_seconds, edges, stages, out);
  Term(out.terms, TimeTerm::kBubble) = Seconds(parts.bubble);
  Term(out.terms, TimeTerm::kPipelineP2p) = p2p.exposed;
  Term(out.terms, TimeTerm::kDataParallel) = data.exposed;
  Term(out.terms, TimeTerm::kOptimizer) = Seconds(parts.optimizer);
  Term(out.terms, TimeTerm::kFixed) = Seconds(parts.fixed);
  Term(out.terms, TimeTerm::kStraggle) = Seconds(parts.straggle);
  Term(out.hidden, TimeTerm::kPipelineP2p) = p2p.hidden;
  Term(out.hidden, TimeTerm::kDataParallel) = data.hidden;
  return out;
}

Seconds StepTotal(const Machine& machine, const Layout& layout, const StageSeconds& stages,
                  const StageTraffic& traffic) {
  return Seconds(PartsOf(machine, layout, stages, PriceP2p(machine, layout),
                         PriceDataParallel(machine, layout, traffic, stages),
                         PriceOptimizer(machine, layout, traffic))
                     .total);
}

Seconds StepLowerBound(const Machine& machine, const Layout& layout, const StageSeconds& stages,
                       const StageTraffic& traffic) {
  // Fully sharded over the whole group, the update is cheapest; traffic is at least nothing.
  Layout sharded = layout;
  sharded.zero = 3;
  sharded.zero_span = 0;
  return Seconds(PartsOf(machine, layout, stages, PriceP2p(machine, layout), {},
                         PriceOptimizer(machine, sharded, traffic))
                     .total);
}

}  // namespace restow::plan
