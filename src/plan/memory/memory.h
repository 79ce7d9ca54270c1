// Bytes of device memory, piece by piece. The pieces are pure and cheap, so that a search can keep
// them in tables; AssembleStage puts them together for one stage with every term named. All take
// the job through MemorySoftware (software.h), which a search makes once.
//
// peak(stage) = extras + the larger of
//   run : states + the largest moment of the schedule (pipeline/in_flight.h), less what does not
//         exist by then: moments where the figure is read after one iteration, gradients where the
//         only backward of a step makes them
//   step: states less gathered weights and reduction buffers + temporaries of the optimizer step
// Source: shared research memory-model.md, sections 2 to 12 (formulas found against measured runs);
// docs/planner.md says the same in this project's words.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/memory/software.h"
#include "plan/pipeline/in_flight.h"
#include "plan/pipeline/stages.h"
#include "plan/shape.h"
#include "restow/schema/job.h"
#include "restow/schema/report.h"

namespace restow::plan {

// ---- one layer ------------------------------------------------------------------------------

struct NamedBytes {
  const char* name;  // "norm 1 input", "query", "expert output", ...
  Bytes bytes;
};

// Tensors one layer keeps from forward to backward for one micro-batch, on one device, in the
// order they are made. Source: memory-model.md sections 5 and 6.
std::vector<NamedBytes> SavedTensors(const MemorySoftware& software, const KindTable::Entry& kind,
                                     const MicroShape& shape, Recompute mode);

struct LayerBytes {
  Bytes saved;          // sum of SavedTensors
  Bytes forward_work;   // most that lives beside them while the layer runs forward
  Bytes backward_work;  // most that lives beside all that is saved while it runs backward:
                        // recomputed tensors and gradients, less what it has freed by then
};

LayerBytes PriceLayerBytes(const MemorySoftware& software, const KindTable::Entry& kind,
                           const MicroShape& shape, Recompute mode);

// What `selective` keeps on a kind of layer under the job's framework: operator names, in the order
// they run, for reports ("core attention", "matmul: query", "communication").
std::vector<std::string> SelectiveKeeps(const MemorySoftware& software,
                                        const KindTable::Entry& kind);
// The same as names that the engine's activation plans take: of sets of operators.
struct OperatorSets {
  std::vector<std::string> save;
  std::string obstacle;  // why no such names say it; "" where they do
};
OperatorSets SelectiveSets(const MemorySoftware& software, const KindTable::Entry& kind);
// One sentence when selective frees next to nothing for this job (core attention under flash), else
// "".
std::string SelectiveNote(const MemorySoftware& software);

// ---- parameters on one rank -----------------------------------------------------------------

struct WeightShape {
  std::int64_t out = 0, in = 0;
  bool grouped = false;  // routed experts of a rank, one grouped product
  friend auto operator<=>(const WeightShape&, const WeightShape&) = default;
};

// Parameters on one rank. Frozen ones have weights but no gradient and no state. LoRA adapters are
// counted as trainable: dense, or expert where they sit in routed experts and are sharded as those.
struct RankParameters {
  std::int64_t dense = 0;
  std::int64_t expert = 0;
  std::int64_t frozen_dense = 0;   // not in dense
  std::int64_t frozen_expert = 0;  // not in expert

  RankParameters& operator+=(const RankParameters& o) {
    dense += o.dense;
    expert += o.expert;
    frozen_dense += o.frozen_dense;
    frozen_expert += o.frozen_expert;
    return *this;
  }
};

// `layer` is the index within its stack (globs of `frozen` may name layers).
RankParameters LayerParametersOnRank(const MemorySoftware& software, const KindTable::Entry& kind,
                                     int layer, int tp, int ep, int etp);
std::vector<WeightShape> LayerWeightShapes(const KindTable::Entry& kind, int tp, int etp);

// Everything a stage holds.
struct StageParameters {
  RankParameters total;
  std::int64_t largest_layer = 0;  // dense parameters of its largest layer (FSDP gathers)
  std::int64_t largest_expert_layer = 0;
  std::int64_t embedding = 0;             // table parameters on this rank (0: none here)
  std::int64_t head = 0;                  // output layer parameters on this rank (0: none, or tied)
  std::vector<WeightShape> shapes;        // distinct, sorted
  std::int64_t placeholders = 0;          // parameters of one of each shape: linears,
  std::int64_t grouped_placeholders = 0;  // grouped products
  std::int64_t largest_weight = 0;        // largest dense parameter tensor, tables included
  std::int64_t largest_expert_weight = 0;  // routed experts of a rank, one tensor
  std::int64_t output_table = 0;           // weight of the output product here, tied or not
  bool has_experts = false;
  bool first = false, last = false;
};

StageParameters PriceStageParameters(const MemorySoftware& software, const KindTable& kinds,
                                     const std::vector<Chunk>& chunks, int tp, int ep, int etp,
                                     int pp);

// ---- states and extras ----------------------------------------------------------------------

struct StateBytes {
  Bytes weights, gradients, optimizer;  // DDP's buckets are gradients too
  Bytes gathered, reduce;               // ZeRO-3 and FSDP; not there in the optimizer step
  Bytes moments;         // of `optimizer`: not there before the first step, where that matters
  Bytes late_gradients;  // of `gradients`: not there while activations peak, where that matters
  Bytes step;            // temporaries of the optimizer step
  Bytes total() const { return weights + gradients + optimizer + gathered + reduce; }
};

// Dense parameters are sharded over zero_span of dp·cp, experts over edp = dp·cp·tp/(ep·etp), which
// never exceeds a stated span. zero 1 shards optimizer and master, 2 gradients too, 3 weights too:
// then two layers and the tables stand gathered, and one layer's gradients in the reduction's and
// in the compute dtype (memory-model.md section 10). A group of one shards nothing.
StateBytes PriceStates(const MemorySoftware& software, const StageParameters& parameters,
                       const Layout& layout);

struct ExtraBytes {
  Bytes placeholders, workspaces, buffers;
  Bytes total() const { return placeholders + workspaces + buffers; }
};

ExtraBytes PriceExtras(const MemorySoftware& software, const StageParameters& parameters,
                       const MicroShape& shape);

// ---- loss head ------------------------------------------------------------------------------

struct HeadBytes {
  Bytes forward, backward;  // beside what layers save, while head and loss run
  Bytes mtp_saved;          // kept per micro-batch by multi-token prediction; 0 without
};

// `mode` is the recompute of the multi-token-prediction layer.
HeadBytes PriceHeadBytes(const MemorySoftware& software, const KindTable& kinds,
                         const MicroShape& shape, Recompute mode);

// ---- one stage ------------------------------------------------------------------------------

// Chunks as PeakInFlight wants them, from layer tables. `layer_bytes[kind][mode]`.
using LayerBytesTable = std::vector<std::array<LayerBytes, kRecomputeModes>>;
ChunkBytes AssembleChunk(const MemorySoftware& software, const MicroShape& shape,
                         const Chunk& chunk, const LayerBytesTable& layer_bytes,
                         const HeadBytes& head, int stage, int chunk_index);

struct StageBytes {
  Bytes peak;
  Phase phase = Phase::kForward;
  MemoryTerms terms{};      // sum to peak
  Bytes largest_transient;  // working set, head or step temporaries at the peak
};

// From the pieces above; the one place where they become a peak.
StageBytes AssembleStage(const MemorySoftware& software, const MicroShape& shape,
                         const std::vector<Chunk>& chunks,
                         const std::vector<ChunkBytes>& chunk_bytes, const InFlightPeak& in_flight,
                         const StateBytes& states, const ExtraBytes& extras, const HeadBytes& head,
                         const LayerBytesTable& layer_bytes, int stage);
// The same total without terms: what a search needs.
Bytes StagePeakBytes(const MemorySoftware& software, Bytes in_flight, const StateBytes& states,
                     const ExtraBytes& extras);

// ---- allocated to reserved ------------------------------------------------------------------

struct ReservedBand {
  Bytes low, high;
  Bytes likely;
  Bytes process;  // with the context and the communicators: what nvidia-smi shows
};
// What a job's process holds that its allocator does not know of and that a device's usable memory
// does not leave out already: communicators' buffers where they were measured to be large.
Bytes OutsideAllocator(const Job& job);
// What the allocator holds for `stage`'s peak, on the job's framework. Source: memory-model.md 13.
ReservedBand PriceReserved(const MemorySoftware& software, const StageBytes& stage);

}  // namespace restow::plan
