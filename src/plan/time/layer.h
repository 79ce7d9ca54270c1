// One layer's work on one device for one micro-batch, piece by piece; layer.cc sorts the pieces
// into the terms of a report.
#pragma once

#include "plan/time/machine.h"
#include "plan/time/matmul.h"

namespace restow::plan {

// What the pieces are priced from.
struct LayerContext {
  const Machine::Constants& k;
  const Job& job;
  const LayerKind& kind;
  const MicroShape& shape;
  bool tower = false;
  Trained trained = Trained::kFully;
  int tp = 1;            // over which this layer is divided (towers whose heads do not divide: 1)
  double sequence = 0;   // tokens of one sequence
  double tokens = 0;     // of one micro-batch inside tensor-parallel regions
  double own = 0;        // outside them
  double heads = 0;      // query heads on this rank
  double kv_heads = 0;   // on this rank, replicated where tp exceeds them
  double query_width = 0, value_width = 0;

  bool weight_gradient() const { return trained == Trained::kFully; }
};

struct LayerPieces {
  Pass products;         // weight products of the attention block
  Pass latent_up;        // of them, the latent up-projection
  Pass mlp;              // weight products of the feed-forward part
  Pass shared;           // of them, the shared experts'
  Pass attention;        // score and value products
  Pass norms;            // norms, residuals, rotary
  Pass activation;       // activation functions
  Pass shared_activation;  // of it, the shared experts'
  Pass permute;          // routing, permutation of rows
  Pass expert_fixed;     // per local expert, and the stall of a layer
  Pass tensor, context, expert;                       // exposed
  Pass tensor_hidden, context_hidden, expert_hidden;  // under other work
  Pass host;

  Pass work() const;  // all but host and the hidden
};

LayerContext ContextOf(const Machine& machine, const KindTable::Entry& kind,
                       const MicroShape& shape);

void AddAttentionBlock(const LayerContext& x, LayerPieces& out);     // layer_attention.cc
void AddDenseFeedForward(const LayerContext& x, LayerPieces& out);   // layer_dense.cc
void AddExperts(const LayerContext& x, LayerPieces& out);            // moe.cc
void AddModelParallel(const LayerContext& x, LayerPieces& out);      // model_parallel.cc
// What the layer takes longer because the host cannot launch it faster. `out` holds the rest.
void AddHostFloor(const LayerContext& x, Recompute mode, LayerPieces& out);  // host.cc

// Forward seconds that run again in backward. Source: time-model.md section 2, "Recompute R".
double RerunSeconds(const LayerContext& x, const LayerPieces& pieces, Recompute mode);  // recompute.cc
// Host seconds per layer that a mode adds to its forward: checkpointed regions are launched again,
// and selective checkpointing by operator passes each of them through Python.
double CheckpointHostSeconds(const LayerContext& x, Recompute mode);
double DispatchHostSeconds(const LayerContext& x, Recompute mode);

// Adapters of LoRA on a product, where `target` is one of its modules.
Pass AdapterProduct(const LayerContext& x, const char* target, double m, double n, double k);

}  // namespace restow::plan
