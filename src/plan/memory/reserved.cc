// From allocated to reserved bytes: a band, since the allocator's slack depends on the order and
// sizes of temporaries that no formula here follows. Source: memory-model.md section 13.
#include "plan/memory/memory.h"

namespace restow::plan {
namespace {

// Fifteen Megatron-LM runs that print both figures; runs with HybridEP buffers (1.175) left out.
// Ascend prints no reserved figure: the same band stands in.
constexpr double kMegatronLow = 1.026, kMegatronHigh = 1.079;

// torchtitan: slack as multiples of the largest transient. Fitted: 0.2 on seven later runs, 1.2 on
// four compiled and 2.3 on four eager runs of March 2024.
constexpr double kTorchLow = 0.2, kTorchHighCompiled = 1.2, kTorchHighEager = 2.3;

Bytes Scaled(Bytes bytes, double factor) {
  return WholeBytes(static_cast<double>(bytes.value()) * factor);
}

}  // namespace

ReservedBand PriceReserved(const MemorySoftware& software, const StageBytes& stage) {
  if (software.megatron_like || software.ascend) {
    return {Scaled(stage.peak, kMegatronLow), Scaled(stage.peak, kMegatronHigh)};
  }
  const double high = software.eager ? kTorchHighEager : kTorchHighCompiled;
  return {stage.peak + Scaled(stage.largest_transient, kTorchLow),
          stage.peak + Scaled(stage.largest_transient, high)};
}

}  // namespace restow::plan
