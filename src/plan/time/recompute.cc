// What recompute runs again. Full: the whole forward, collectives included. Selective: the modules
// or operators that the framework's list names. Source: time-model.md section 2, "Recompute R";
// hyper-parallel-runtime.md sections 4.1 and 5.7 for HyperParallel's policy.
#include <algorithm>
#include <bit>

#include "plan/time/layer.h"

namespace restow::plan {
namespace {

double ForwardSeconds(const LayerPieces& p) { return p.work().forward + p.host.forward; }

// Operators of one layer's forward: two fifths of its kernels.
double ReplayHostSeconds(const LayerContext& x) {
  return 0.4 * x.k.layer_host + DispatchHostSeconds(x, Recompute::kSelective);
}

double ExpertModules(const LayerContext& x, const LayerPieces& p) {
  const unsigned list = x.k.selective;
  if (list & kExpertLayer) {
    return p.mlp.forward + p.activation.forward + p.permute.forward + p.expert.forward;
  }
  double again = 0;
  if (list & kExpertActivation) again += p.activation.forward - p.shared_activation.forward;
  if (list & kSharedExperts) again += p.shared.forward + p.shared_activation.forward;
  return again;
}

double Modules(const LayerContext& x, const LayerPieces& p) {
  const unsigned list = x.k.selective;
  const bool experts = x.kind.feed_forward.experts.has_value();
  double again = experts ? ExpertModules(x, p) : 0.0;
  if (list & kCoreAttention) again += p.attention.forward;
  if (list & kLatentUp) again += p.latent_up.forward;
  if ((list & kMlp) && !experts) again += p.mlp.forward + p.activation.forward;
  // The norms' share of norms, residuals and rotary.
  if (list & kLayerNorm) again += 0.4 * p.norms.forward;
  if (list & kActivationFunction) again += p.activation.forward;
  return again;
}

double SelectiveSeconds(const LayerContext& x, const LayerPieces& p) {
  const unsigned list = x.k.selective;
  if (!(list & kPerOperator)) return Modules(x, p);
  double again = p.norms.forward + p.activation.forward +
                 0.5 * (p.products.forward + p.mlp.forward);
  if (x.k.selective_dispatch) again = std::max(again, ReplayHostSeconds(x));
  // The vendor's own cost model finds its selective mode slower than full recompute.
  return x.k.selective_floor ? std::max(again, ForwardSeconds(p)) : again;
}

}  // namespace

double RerunSeconds(const LayerContext& x, const LayerPieces& pieces, Recompute mode) {
  switch (mode) {
    case Recompute::kOff:
      return 0.0;
    case Recompute::kFull:
      return ForwardSeconds(pieces);
    case Recompute::kSelective:
      return SelectiveSeconds(x, pieces);
  }
  return 0.0;
}

double CheckpointHostSeconds(const LayerContext& x, Recompute mode) {
  if (mode != Recompute::kSelective || !x.k.module_regions) return 0.0;
  const bool experts = x.kind.feed_forward.experts.has_value();
  unsigned meant = kCoreAttention | kLayerNorm | kActivationFunction;
  meant |= experts ? kExpertLayer | kExpertActivation | kSharedExperts : unsigned{kMlp};
  if (x.kind.attention.latent) meant |= kLatentUp;
  // Both norms of a layer are regions of their own.
  const int regions =
      std::popcount(x.k.selective & meant) + ((x.k.selective & kLayerNorm) != 0 ? 1 : 0);
  return regions * x.k.checkpoint_host;
}

double DispatchHostSeconds(const LayerContext& x, Recompute mode) {
  return mode == Recompute::kSelective && x.k.selective_dispatch ? x.k.dispatch_host : 0.0;
}

}  // namespace restow::plan
