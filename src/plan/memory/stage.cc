// Puts the pieces of one stage together: its chunks, its peak, and the terms of that peak.
#include <algorithm>
#include <limits>

#include "plan/memory/memory.h"
#include "restow/base/check.h"

namespace restow::plan {
namespace {

Bytes StreamBytes(const MemorySoftware& s, const MicroShape& shape) {
  return Bytes(s.element * OwnTokens(s.job(), shape) * s.job().model.hidden());
}

// What runs beside saved tensors in one direction of a chunk.
struct Extra {
  Bytes resident;  // layers of an offloaded chunk that are on the device whatever runs
  Bytes layer;     // most that any layer adds, those fetched for its backward included
  Bytes head;
  Bytes transfer;  // activation received from, or gradient owed to, a neighbour stage
  Bytes total() const { return resident + std::max(layer, head) + transfer; }
};

const LayerBytes& BytesOf(const LayerBytesTable& table, const LayerRun& run) {
  return table[static_cast<std::size_t>(run.kind)][static_cast<std::size_t>(run.mode)];
}

Bytes SavedByLayers(const MemorySoftware& s, const MicroShape& shape, const Chunk& chunk,
                    const LayerBytesTable& table) {
  if (chunk.layers() == 0) return StreamBytes(s, shape);  // keeps what it passes on
  Bytes sum = s.pipeline_inputs && shape.pp > 1 ? StreamBytes(s, shape) : Bytes(0);
  for (const LayerRun& run : chunk.runs) sum += run.count * BytesOf(table, run).saved;
  return sum;
}

// The most a layer adds to all that its chunk saves: layers behind it have saved nothing yet
// (forward) or freed it already (backward).
Bytes LargestWork(const Chunk& chunk, const LayerBytesTable& table, bool forward) {
  Bytes behind, largest;
  for (auto run = chunk.runs.rbegin(); run != chunk.runs.rend(); ++run) {
    if (run->count == 0) continue;
    const LayerBytes& layer = BytesOf(table, *run);
    largest = std::max(largest, (forward ? layer.forward_work : layer.backward_work) - behind);
    behind += run->count * layer.saved;
  }
  return largest;
}

// Of an offloaded chunk the layer that runs and one on its way are on the device.
Bytes ResidentPair(const Chunk& chunk, const LayerBytesTable& table) {
  auto last = chunk.runs.rbegin();
  while (last->count == 0) ++last;
  return 2 * BytesOf(table, *last).saved;
}

Extra ExtraOf(const MemorySoftware& s, const MicroShape& shape, const Chunk& chunk,
              const LayerBytesTable& table, const HeadBytes& head, int stage, int chunk_index,
              bool forward) {
  Extra extra;
  extra.layer = LargestWork(chunk, table, forward);
  if (s.attention_offloaded && chunk.layers() > 0) {
    const Bytes pair = ResidentPair(chunk, table);
    if (forward) {
      extra.resident = std::min(pair, SavedByLayers(s, shape, chunk, table));
    } else {
      extra.layer += pair;  // fetched when the head is done
    }
  }
  if (chunk.head) extra.head = forward ? head.forward : head.backward;
  const bool receives = !forward || stage > 0 || chunk_index > 0;
  if (shape.pp > 1 && receives) extra.transfer = StreamBytes(s, shape);
  return extra;
}

Bytes& Term(MemoryTerms& terms, MemoryTerm term) { return terms[static_cast<std::size_t>(term)]; }

Bytes RunBytes(const StateBytes& states, Bytes in_flight) {
  return states.total() - states.moments - states.late_gradients + in_flight;
}

Bytes StepBytes(const StateBytes& states) {
  return states.total() - states.gathered - states.reduce + states.step;
}

void AddStates(const StateBytes& states, const ExtraBytes& extras, MemoryTerms* terms) {
  Term(*terms, MemoryTerm::kWeights) = states.weights;
  Term(*terms, MemoryTerm::kGradients) = states.gradients;
  Term(*terms, MemoryTerm::kOptimizer) = states.optimizer;
  Term(*terms, MemoryTerm::kPlaceholders) = extras.placeholders;
  Term(*terms, MemoryTerm::kWorkspaces) = extras.workspaces;
  Term(*terms, MemoryTerm::kBuffers) = extras.buffers;
}

Phase PhaseOf(bool forward, bool head) {
  if (forward) return head ? Phase::kLossForward : Phase::kForward;
  return head ? Phase::kLossBackward : Phase::kBackward;
}

void AddRun(const StateBytes& states, const std::vector<Chunk>& chunks,
            const std::vector<ChunkBytes>& chunk_bytes, const Moment& moment, const HeadBytes& head,
            const Extra& extra, StageBytes* stage) {
  MemoryTerms& terms = stage->terms;
  Term(terms, MemoryTerm::kGradients) -= states.late_gradients;
  Term(terms, MemoryTerm::kOptimizer) -= states.moments;
  Term(terms, MemoryTerm::kGathered) = states.gathered;
  Term(terms, MemoryTerm::kReduce) = states.reduce;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const Bytes mtp = chunks[c].head ? head.mtp_saved : Bytes(0);
    Term(terms, MemoryTerm::kMtp) += moment.alive[c] * mtp;
    Term(terms, MemoryTerm::kActivations) += moment.alive[c] * (chunk_bytes[c].saved - mtp);
  }
  const bool head_runs = extra.head >= extra.layer && extra.head.value() > 0;
  Term(terms, MemoryTerm::kActivations) += extra.resident;
  Term(terms, head_runs ? MemoryTerm::kLossHead : MemoryTerm::kWorking) =
      std::max(extra.layer, extra.head);
  Term(terms, MemoryTerm::kBuffers) += extra.transfer;
  stage->largest_transient = std::max(extra.layer, extra.head);
  stage->phase = PhaseOf(moment.forward, head_runs);
}

void AddStep(const StateBytes& states, StageBytes* stage) {
  Term(stage->terms, MemoryTerm::kOptimizerStep) = states.step;
  stage->largest_transient = states.step;
  stage->phase = Phase::kOptimizerStep;
}

Bytes Sum(const MemoryTerms& terms) {
  Bytes sum;
  for (const Bytes term : terms) sum += term;
  return sum;
}

}  // namespace

ChunkBytes AssembleChunk(const MemorySoftware& software, const MicroShape& shape,
                         const Chunk& chunk, const LayerBytesTable& layer_bytes,
                         const HeadBytes& head, int stage, int chunk_index) {
  const auto extra = [&](bool forward) {
    return ExtraOf(software, shape, chunk, layer_bytes, head, stage, chunk_index, forward).total();
  };
  ChunkBytes bytes;
  const bool parked = software.attention_offloaded && chunk.layers() > 0;  // on the host in between
  bytes.saved = parked ? Bytes(0) : SavedByLayers(software, shape, chunk, layer_bytes);
  if (chunk.head) bytes.saved += head.mtp_saved;
  bytes.forward_extra = extra(true);
  bytes.backward_extra = extra(false);
  return bytes;
}

Bytes StagePeakBytes(const MemorySoftware& /*software*/, Bytes in_flight, const StateBytes& states,
                     const ExtraBytes& extras) {
  // Loading holds weights and first use of the optimizer holds states: the step holds both and
  // more.
  return std::max(RunBytes(states, in_flight), StepBytes(states)) + extras.total();
}

StageBytes AssembleStage(const MemorySoftware& software, const MicroShape& shape,
                         const std::vector<Chunk>& chunks,
                         const std::vector<ChunkBytes>& chunk_bytes, const InFlightPeak& in_flight,
                         const StateBytes& states, const ExtraBytes& extras, const HeadBytes& head,
                         const LayerBytesTable& layer_bytes, int stage) {
  StageBytes bytes;
  AddStates(states, extras, &bytes.terms);
  if (StepBytes(states) > RunBytes(states, in_flight.bytes)) {
    AddStep(states, &bytes);
  } else {
    const Moment& moment = in_flight.moment;
    const Chunk& chunk = chunks[static_cast<std::size_t>(moment.chunk)];
    const Extra extra =
        ExtraOf(software, shape, chunk, layer_bytes, head, stage, moment.chunk, moment.forward);
    AddRun(states, chunks, chunk_bytes, moment, head, extra, &bytes);
  }
  bytes.peak = StagePeakBytes(software, in_flight.bytes, states, extras);
  RESTOW_CHECK(Sum(bytes.terms) == bytes.peak);
  return bytes;
}

}  // namespace restow::plan
