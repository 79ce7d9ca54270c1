// What one micro-batch looks like on one device: the part of a layout that decides the cost of a
// single layer. Layers of equal shape and kind cost the same, whatever the rest of the layout.
#pragma once

#include <cstdint>

#include "restow/schema/job.h"
#include "restow/schema/strategy.h"

namespace restow::plan {

struct MicroShape {
  int tp = 1;
  bool sp = false;
  int cp = 1;
  CpKind cp_kind = CpKind::kRing;
  int ep = 1;
  int etp = 1;
  int micro_batch = 1;
  RankOrder order = kDefaultOrder;
  int dp = 1;  // only its place in `order` matters to a layer: strides of groups outside it
  int pp = 1;

  friend bool operator==(const MicroShape&, const MicroShape&) = default;
};

inline MicroShape ShapeOf(const Layout& l) {
  return {l.tp, l.sp, l.cp, l.cp_kind, l.ep, l.etp, l.micro_batch, l.order, l.dp, l.pp};
}

// Tokens of one micro-batch that a device works on inside tensor-parallel regions: s·b/cp.
inline std::int64_t Tokens(const Job& job, const MicroShape& s) {
  return static_cast<std::int64_t>(job.training.sequence) * s.micro_batch / s.cp;
}

// Tokens outside them: divided by tp too under sequence parallelism.
inline std::int64_t OwnTokens(const Job& job, const MicroShape& s) {
  return s.sp ? Tokens(job, s) / s.tp : Tokens(job, s);
}

// All kinds of a job's layers: the language model's, then each tower's in order. Kind ids index it.
struct KindTable {
  explicit KindTable(const Model& model);

  struct Entry {
    const LayerKind* kind;
    int tower;  // -1: language model, else index into model.towers
  };
  std::vector<Entry> entries;
  int size() const { return static_cast<int>(entries.size()); }
  // First id of a tower's kinds.
  std::vector<int> tower_base;
};

}  // namespace restow::plan
