// What a source measured, in the units of a price.
#pragma once

#include <optional>
#include <vector>

#include "restow/schema/job.h"
#include "restow/schema/measured_run.h"
#include "restow/schema/validation.h"

namespace restow::validate {

// Seconds of one step, from what the source printed: a step time, tokens per second and device, or
// a rate in FLOP/s or percent of peak under its own convention (the switch `flops`). Empty: none.
std::optional<double> MeasuredSeconds(const MeasuredRun& run);

// GiB. Empty: none.
std::optional<double> MeasuredGib(const MeasuredRun& run);
MemoryInstrument InstrumentOf(const MeasuredRun& run);
// The figure is of the last pipeline rank only.
bool MeasuresLastStage(const MeasuredRun& run);
// GiB per rank in rank order where the source prints them, else empty.
std::vector<double> MeasuredRanks(const MeasuredRun& run);

}  // namespace restow::validate
