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
  return {Scaled(peak, c.at("reserved.megatron.low")),
          Scaled(peak, c.at("reserved.megatron.high")),
          Scaled(peak, c.at("reserved.megatron")),
          {}};
}

// torchtitan: multiples of the largest transient.
ReservedBand OfTransient(const MemorySoftware& software, const StageBytes& stage) {
  const Calibration& c = software.job().calibration;
  const double low = c.at("reserved.torch");
  const double high =
      software.eager ? c.at("reserved.torch-2024.eager") : c.at("reserved.torch-2024.compiled");
  const auto with = [&](double slack) {
    return stage.peak + Scaled(stage.largest_transient, slack);
  };
  return {with(low), with(high), with(software.first_torchtitan ? high : low), {}};
}

}  // namespace

Bytes OutsideAllocator(const Job& job) {
  if (job.training.framework != Framework::kDeepSpeed) return Bytes(0);
  return WholeBytes(job.calibration.at("process.deepspeed"));
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
    band.likely = stage.peak + Scaled(churn, c.at("reserved.deepspeed"));
    band.high = std::max(band.high, band.likely);
  }
  const Bytes outside = OutsideAllocator(software.job());
  band.process = band.likely + (outside.value() > 0 ? outside : WholeBytes(c.at("process")));
  return band;
}

}  // namespace restow::plan
