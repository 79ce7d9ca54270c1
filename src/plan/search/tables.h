// Costs that many candidates share, kept while a search walks one unit after another.
//
// The same pieces as the plain path (price/candidate.h) in the order in which the enumeration fixes
// dimensions: layers by the shape of a micro-batch, stages by the split, then the states. Not
// thread safe: one per thread.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "plan/memory/memory.h"
#include "plan/pipeline/in_flight.h"
#include "plan/pipeline/stages.h"
#include "plan/price/context.h"
#include "plan/time/time.h"

namespace restow::plan {

// One shape of a micro-batch: every kind of layer under every mode that the plans use.
struct ShapeCosts {
  MicroShape shape;
  LayerBytesTable bytes;
  std::vector<HeadBytes> head;  // per recompute plan
  LayerSecondsTable seconds;    // empty until asked for: much is refused on its bytes alone
  EdgeSeconds edges;
};

// One split into stages: which stages are alike, and the chunks of each class under each plan.
struct SplitClasses {
  std::vector<int> class_of_stage;
  std::vector<int> first_stage;  // of each class
  std::vector<int> stages_in_class;
  std::vector<StageSplit> of_plan;
  // repeats[class][chunk]: priced as the chunk before it, so that it need not be priced again.
  std::vector<std::vector<bool>> repeats;

  int classes() const { return static_cast<int>(first_stage.size()); }
};

// Parameters of each class of stages on one rank.
struct ClassParameters {
  std::vector<StageParameters> of_class;
  StageTraffic traffic;
};

// The moments of one stage's schedule, and what equal chunks need of them: how many micro-batches
// are alive over all chunks, at most, when chunk c runs forward or backward.
struct StageMoments {
  struct Running {
    int chunk = 0;
    bool forward = true;
  };
  std::vector<Running> running;  // per moment
  std::vector<int> alive;        // per moment and chunk, one row after another
  std::vector<int> most_forward, most_backward;
};

class Tables {
 public:
  Tables(const Context& context, const std::vector<RecomputePlan>& plans);

  // References stay valid until the next unit.
  ShapeCosts& Shape(const Layout& layout);
  const SplitClasses& Split(int pp, int vpp);
  const ClassParameters& Parameters(const Layout& layout);
  const std::vector<StageMoments>& Moments(const Layout& layout);

  // Forgets shapes: called between units, whose shapes never meet again.
  void StartUnit() { shapes_.clear(); }

  // In-flight bytes per class of stages under one plan, in two steps. First those of each class's
  // first stage, which has the most warm-up: a lower bound, cheap. Then the largest of all stages.
  // The reference is to scratch that the next call reuses.
  std::vector<Bytes>& FirstActivations(const Layout& layout, const ShapeCosts& shape,
                                       const SplitClasses& split, int plan);
  void AddOtherStages(const Layout& layout, const SplitClasses& split,
                      std::vector<Bytes>& activations);
  // A lower bound on the in-flight bytes of the first stage: under every schedule it holds all it
  // saves for min(micro-batches, stages) micro-batches at once.
  Bytes LeastActivations(const Layout& layout, const ShapeCosts& shape, const SplitClasses& split,
                         int plan) const;
  StageSeconds Stages(ShapeCosts& shape, const SplitClasses& split, int plan) const;

 private:
  void PriceSeconds(ShapeCosts& shape) const;

  using ShapeKey = std::tuple<int, int, int>;  // micro_batch, and dp, pp where they matter
  using SplitKey = std::pair<int, int>;
  using ParameterKey = std::tuple<int, int, int, int, int>;  // tp, ep, etp, pp, vpp
  using MomentKey = std::tuple<Schedule, int, int, int>;     // schedule, pp, vpp, micro-batches

  const Context& context_;
  const std::vector<RecomputePlan>& plans_;
  std::array<bool, kRecomputeModes> used_{};
  std::map<ShapeKey, ShapeCosts> shapes_;
  std::map<SplitKey, SplitClasses> splits_;
  std::map<ParameterKey, ClassParameters> parameters_;
  std::map<MomentKey, std::vector<StageMoments>> moments_;
  std::vector<std::vector<ChunkBytes>> chunks_;  // per class, of the plan last asked for
  std::vector<Bytes> activations_;               // per class
};

}  // namespace restow::plan
