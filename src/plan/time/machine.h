// Constants of a job's device and software, resolved once, in seconds, bytes and FLOP.
#pragma once

#include <utility>
#include <vector>

#include "plan/time/software.h"
#include "plan/time/time.h"
#include "plan/time/trained.h"

namespace restow::plan {

// Seconds of the two directions of a piece of work.
struct Pass {
  double forward = 0;
  double backward = 0;

  Pass& operator+=(const Pass& o) {
    forward += o.forward;
    backward += o.backward;
    return *this;
  }
  friend Pass operator+(Pass a, const Pass& b) { return a += b; }
  friend Pass operator*(double x, const Pass& a) { return {x * a.forward, x * a.backward}; }
  double sum() const { return forward + backward; }
};

// What a product of one number format reaches at best.
struct ProductRate {
  double flops_per_s = 0;  // peak times the reached share
  double input_bytes = 2;  // of one element of either factor
  double cast_bytes = 0;   // moved per input element that is cast to it; 0: needs no cast
};

// A level of the interconnect as collectives see it.
struct Link {
  int size = 0;      // devices inside one domain
  double rate = 0;   // bytes per second and device, one direction, reached
  double start = 0;  // seconds to start a collective that reaches this far
  double hop = 0;    // seconds per ring member added at this level
};

// Modules that `selective` reruns, one bit each.
enum RecomputeModule : unsigned {
  kCoreAttention = 1u << 0,
  kLatentUp = 1u << 1,
  kMlp = 1u << 2,
  kExpertLayer = 1u << 3,
  kExpertActivation = 1u << 4,
  kLayerNorm = 1u << 5,
  kSharedExperts = 1u << 6,
  kActivationFunction = 1u << 7,
  kPerOperator = 1u << 8,  // half the weight products and all element-wise work
};

struct Machine::Constants {
  const SoftwareProfile* software = nullptr;

  // Products and memory.
  ProductRate wide;     // 16 bit (or fp32 where that is computed in): head, loss, attention
  ProductRate compute;  // layers' weight products
  double wave = 0;      // outputs of one tile on every compute unit
  double half_waves = 0, half_inner = 0, product_start = 0;
  double grouped = 1;           // grouped product over a plain one of the same shape
  double memory = 0;            // bytes per second, reached
  double traffic = 1;           // element-wise bytes over the fused minimum
  double element = 2;           // bytes of one activation element
  double accumulate_bytes = 8;  // moved per weight-gradient output
  double separate_bytes = 0;    // the same in a kernel of its own
  // Attention.
  bool flash = true;
  double attention_rate = 0;  // FLOP/s on causal FLOPs, full occupancy
  double half_items = 0, query_rows = 128, attention_backward = 1, unaligned = 1, kernel = 0;
  double units = 1;
  double softmax_passes = 2.5;
  // Links.
  std::vector<Link> links;  // from the inside out
  bool mesh = false;
  double straggle = 0;  // share of the step
  // Experts.
  double expert_cast = 1, expert_fixed = 0, permute = 1, expert_stall = 0;
  double expert_exposed = 1, biased_activation = 1, imbalance = 1;
  bool biased = false, one_copy_per_node = false;
  double layer_host = 0, expert_layer_host = 0;  // forward + backward, one layer and micro-batch
  double checkpoint_host = 0, stall = 0, dispatch_host = 0;
  // Exposed shares.
  double widest_overlap = 1e9;  // tp groups beyond it do not overlap
  double tensor_exposed = 1, ring_exposed = 1, data_exposed = 1, sharded_exposed = 1;
  double p2p_exposed = 1;
  // Data parallel and optimizer.
  double gradient_bytes = 4, sharded_gradient_bytes = 4, expert_gradient_bytes = 4;
  double weight_bytes = 2;
  double copy_bytes = 0, zero_ideal = 1, broadcast = 0;
  double update_seconds = 0, clip_seconds = 0;  // per parameter of the shard, per local gradient
  // Loss and the whole.
  double loss_bytes = 12, fixed = 0, speed = 1;
  // Recompute.
  unsigned selective = 0;           // RecomputeModule bits
  bool module_regions = false;      // each module of the list is launched as a region of its own
  bool selective_dispatch = false;  // every operator passes through Python in forward and replay
  bool selective_floor = false;     // never faster than full recompute
  // Frozen parts.
  bool any_frozen = false;
  bool head_trained = true;
  std::vector<std::pair<const LayerKind*, Trained>> trained;
};

}  // namespace restow::plan
