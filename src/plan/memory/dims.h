// Sizes of one layer on one device for one micro-batch, in tokens and elements.
#pragma once

#include <cstdint>

#include "plan/memory/software.h"
#include "plan/shape.h"

namespace restow::plan {

struct LayerDims {
  const LayerKind* kind = nullptr;
  std::int64_t element = 2;  // bytes of an element of the compute dtype
  int tp = 1;
  bool sp = false;
  bool context_parallel = false;
  bool all_to_all = false;  // context parallel by exchanging heads

  std::int64_t batch = 1;   // sequences
  std::int64_t tokens = 0;  // inside tensor-parallel regions
  std::int64_t own = 0;     // outside them
  std::int64_t hidden = 0;

  // Attention; heads and widths as far as they are on this device.
  std::int64_t heads = 0, kv_heads = 0;
  std::int64_t query_width = 0, value_width = 0;  // of a head
  std::int64_t scores = 0;                        // elements of the score matrices
  bool latent = false;

  // Feed-forward: of the dense branch, of one routed expert, of the shared experts.
  std::int64_t width = 0, expert_width = 0, shared_width = 0;
  std::int64_t routed = 0;   // token copies the experts of this device receive
  std::int64_t experts = 0;  // of the whole layer
  bool moe = false, gated = true;
  bool exchanged = false;  // tokens travel to their experts (ep > 1)

  std::int64_t query() const { return tokens * heads * query_width; }
  std::int64_t key() const { return tokens * kv_heads * query_width; }
  std::int64_t value() const { return tokens * kv_heads * value_width; }
  std::int64_t attention_output() const { return tokens * heads * value_width; }
  std::int64_t stream() const { return own * hidden; }   // the residual stream
  std::int64_t inputs() const { return gated ? 2 : 1; }  // products into the feed-forward
};

// Throws kBadInput for a tower whose token count nobody states.
LayerDims DimsOf(const MemorySoftware& software, const KindTable::Entry& kind,
                 const MicroShape& shape);

// Tensor parallelism as far as a layer takes part: a tower whose heads or widths do not divide is
// replicated.
int TensorParallelOf(const KindTable::Entry& kind, int tp);

}  // namespace restow::plan
