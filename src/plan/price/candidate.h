// One candidate, priced by itself and with every term named: the slow, plain path. Reports are made
// of it, and a search is checked against it.
#pragma once

#include "plan/memory/memory.h"
#include "plan/price/context.h"
#include "restow/schema/report.h"

namespace restow::plan {

// Requires: the layout keeps the rules.
Candidate PriceCandidate(const Context& context, const Layout& layout,
                         const RecomputePlan& recompute);

// Its step time alone.
Seconds PriceStep(const Context& context, const Layout& layout, const RecomputePlan& recompute);

// Parameters that set the pace of gradient traffic and of the optimizer: those of the busiest
// stage.
StageTraffic TrafficOf(const Job& job, const std::vector<StageParameters>& stages);

// The schedule as memory sees it: a single stage accumulates gradients, whatever it is called.
struct PipelineShape PipelineOf(const Job& job, const Layout& layout);

// Bytes a candidate may allocate: the device's memory less the margin and what the framework takes
// outside the allocator.
Bytes MemoryLimit(const Job& job);

}  // namespace restow::plan
