// Reports as text for a terminal and as CSV. Plain functions from values to text; no I/O.
#pragma once

#include <string>
#include <vector>

#include "restow/schema/activation_plan.h"
#include "restow/schema/cluster.h"
#include "restow/schema/report.h"

namespace restow {

struct TableStyle {
  int width = 100;  // columns
  bool color = false;
};

std::string DrawPlan(const PlanReport& report, const TableStyle& style);
std::string DrawPrice(const PriceReport& report, const TableStyle& style);
// One candidate without the job around it: speed, fit, memory and time by term, stages.
std::string DrawCandidate(const Candidate& candidate, const TableStyle& style);
std::string DrawExplanation(const Explanation& explanation, const TableStyle& style);
std::string DrawComparison(const Comparison& comparison, const TableStyle& style);
std::string DrawModel(const Model& model, const TableStyle& style);
std::string DrawDevice(const Cluster& one_device, const TableStyle& style);
// Lists of presets, one row each.
std::string DrawModels(const std::vector<Model>& models, const TableStyle& style);
std::string DrawDevices(const std::vector<Cluster>& devices, const TableStyle& style);

std::string PlanCsv(const PlanReport& report);  // ranked candidates, one row each, with a header
std::string PriceCsv(const PriceReport& report);
std::string ExplanationCsv(const Explanation& explanation);  // the candidate, then each change
std::string ComparisonCsv(const Comparison& comparison);     // two rows, `side` a and b

// "tp8 sp pp4 vpp2 dp2 zero1 mb2": what is not 1 or off, in a fixed order.
std::string LayoutText(const Layout& layout);
std::string RecomputeText(const RecomputePlan& plan);

}  // namespace restow
