// From allocated to reserved bytes: a band, since the allocator's slack depends on the order and
// sizes of temporaries that no formula here follows. Source: memory-model.md sections 11 and 13.
#include <algorithm>

#include "plan/memory/memory.h"

namespace restow::plan {
namespace {

Bytes Scaled(Bytes bytes, double factor) {
  return WholeBytes(static_cast<double>(bytes.value()) * factor);
}

// Megatron-LM: shares of the allocated peak. Ascend prints no reserved figure: the same stands in.
ReservedBand OfPeak(const Calibration& c, Bytes peak) {
  return {Scaled(peak, c.Get("reserved.megatron.low", 1.026)),
          Scaled(peak, c.Get("reserved.megatron.high", 1.079)),
          Scaled(peak, c.Get("reserved.megatron", 1.05)),
          {}};
}

// torchtitan: multiples of the largest transient.
ReservedBand OfTransient(const MemorySoftware& software, const StageBytes& stage) {
  const Calibration& c = software.job().calibration;
  const bool first = software.job().training.release.find("2024-03") != std::string::npos;
  const double low = c.Get("reserved.torch", 0.2);
  const double high = software.eager ? c.Get("reserved.torch-2024.eager", 2.3)
                                     : c.Get("reserved.torch-2024.compiled", 1.2);
  const auto with = [&](double slack) {
    return stage.peak + Scaled(stage.largest_transient, slack);
  };
  return {with(low), with(high), with(first ? high : low), {}};
}

}  // namespace

Bytes OutsideAllocator(const Job& job) {
  if (job.training.framework != Framework::kDeepSpeed) return Bytes(0);
  return WholeBytes(job.calibration.Get("process.deepspeed", 9.85e9));
}

ReservedBand PriceReserved(const MemorySoftware& software, const StageBytes& stage) {
  const Calibration& c = software.job().calibration;
  const bool of_peak = software.megatron_like || software.ascend;
  ReservedBand band = of_peak ? OfPeak(c, stage.peak) : OfTransient(software, stage);
  if (software.framework == Framework::kDeepSpeed) {
    // States are allocated once and leave no gaps; what comes and goes does.
    Bytes churn;
    for (const MemoryTerm term :
         {MemoryTerm::kActivations, MemoryTerm::kWorking, MemoryTerm::kLossHead}) {
      churn += stage.terms[static_cast<std::size_t>(term)];
    }
    band.likely = stage.peak + Scaled(churn, c.Get("reserved.deepspeed", 0.24));
    band.high = std::max(band.high, band.likely);
  }
  const Bytes outside = OutsideAllocator(software.job());
  band.process = band.likely + (outside.value() > 0 ? outside : WholeBytes(c.Get("process", 2e9)));
  return band;
}

}  // namespace restow::plan
