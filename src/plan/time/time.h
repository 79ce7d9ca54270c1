// Seconds of one optimizer step, piece by piece. The pieces are pure, so that a search can keep
// them in tables; AssembleStep puts them together with every term named.
//
// T = ( m·max S + (sum S - max S)/v + P2P + DP + OPT + FIX ) · (1 + straggle)
// Source: shared research time-model.md, sections 1 and 2; docs/planner.md says the same in this
// project's words. Constants come from the job's calibration.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "plan/pipeline/stages.h"
#include "plan/shape.h"
#include "restow/schema/job.h"
#include "restow/schema/report.h"

namespace restow::plan {

// The job's device and software with their constants looked up once. Immutable; shared by threads.
class Machine {
 public:
  explicit Machine(const Job& job);
  ~Machine();
  struct Constants;
  const Constants& constants() const { return *constants_; }
  const Job& job() const { return job_; }

 private:
  const Job& job_;
  std::unique_ptr<const Constants> constants_;
};

// ---- one layer ------------------------------------------------------------------------------

// One layer, one micro-batch, one recompute mode, on one device.
struct LayerSeconds {
  TimeTerms forward{};                    // exposed seconds by term
  TimeTerms backward{};                   // without recompute
  TimeTerms hidden{};                     // forward and backward work that runs under other work
  Seconds recompute;                      // forward work run again in backward
  Seconds forward_total, backward_total;  // sums of the terms; backward_total includes recompute
};

LayerSeconds PriceLayerSeconds(const Machine& machine, const KindTable::Entry& kind,
                               const MicroShape& shape, Recompute mode);

// The same under every mode at once.
using LayerModes = std::array<LayerSeconds, kRecomputeModes>;
LayerModes PriceLayerModes(const Machine& machine, const KindTable::Entry& kind,
                           const MicroShape& shape);

// ---- embedding, head, multi-token prediction -----------------------------------------------

struct EdgeSeconds {
  Seconds embedding;  // forward and backward, one micro-batch
  Seconds head;       // output layer and loss, forward and backward, one micro-batch
  Seconds mtp;        // joining projection of one multi-token-prediction layer, the same way
};

EdgeSeconds PriceEdges(const Machine& machine, const MicroShape& shape);

// ---- the whole step -------------------------------------------------------------------------

// Seconds of every stage for one micro-batch: forward + backward + recompute, edges included, and
// multi-token prediction spread over the stages. `layer_seconds[kind][mode]`.
using LayerSecondsTable = std::vector<LayerModes>;
struct StageSeconds {
  std::vector<Seconds> stage;             // all work, one micro-batch
  Seconds layer_forward, layer_backward;  // mean of the language model's layers (windows that hide
                                          // gradient traffic); backward with recompute
  Seconds sum;                            // of all stages
  Seconds slowest;                        // of the pace-setting stage
  int pace = 0;                           // its index
};
StageSeconds AssembleStages(const Machine& machine, const KindTable& kinds, const StageSplit& split,
                            const LayerSecondsTable& layer_seconds, const EdgeSeconds& edges);
// The same from one stage of each class of equal stages (`first_stage`) and how many it has.
// `stage` stays empty, so that a search allocates nothing.
StageSeconds AssembleStageClasses(const Machine& machine, const KindTable& kinds,
                                  const StageSplit& split, const std::vector<int>& first_stage,
                                  const std::vector<int>& stages_in_class,
                                  const LayerSecondsTable& layer_seconds, const EdgeSeconds& edges);

// What a stage's parameters cost in traffic and updates.
struct StageTraffic {
  double dense = 0;  // trainable parameters on the busiest rank, tables apart
  double expert = 0;
  double table = 0;          // embedding or output table
  double frozen_dense = 0;   // not in dense: no gradient, but ZeRO-3 gathers them all the same
  double frozen_expert = 0;  // not in expert
  double layers_per_stage = 0;
};

struct ExposedHidden {
  Seconds exposed, hidden;
};
// Gradient reduction and weight gathering, per step.
ExposedHidden PriceDataParallel(const Machine& machine, const Layout& layout,
                                const StageTraffic& traffic, const StageSeconds& stages);
Seconds PriceOptimizer(const Machine& machine, const Layout& layout, const StageTraffic& traffic);
// Activations between stages, per step.
ExposedHidden PriceP2p(const Machine& machine, const Layout& layout);

struct StepSeconds {
  Seconds total;
  TimeTerms terms{};
  TimeTerms hidden{};
};
// The sum of all of it. Terms of the pace-setting stage times the micro-batches, and the rest.
StepSeconds AssembleStep(const Machine& machine, const Layout& layout, const KindTable& kinds,
                         const StageSplit& split, const LayerSecondsTable& layer_seconds,
                         const EdgeSeconds& edges, const StageSeconds& stages,
                         const StageTraffic& traffic);
// The same total without terms, and a bound that needs neither zero nor its span.
Seconds StepTotal(const Machine& machine, const Layout& layout, const StageSeconds& stages,
                  const StageTraffic& traffic);
// No layout that differs from `layout` only in zero and zero_span is faster than this.
Seconds StepLowerBound(const Machine& machine, const Layout& layout, const StageSeconds& stages,
                       const StageTraffic& traffic);

// ---- rates ----------------------------------------------------------------------------------

// Model FLOPs of one step on one device by the causal-half convention, recompute not counted:
// 6·(products a token visits, output layer included) + attention. Used for MFU only.
Flops ModelFlops(const Job& job);

}  // namespace restow::plan
