// Reports as text for a terminal and as CSV. Plain functions from values to text; no I/O.
#pragma once

#include <string>

#include "restow/schema/activation_plan.h"
#include "restow/schema/cluster.h"
#include "restow/schema/report.h"

namespace restow {

struct TableStyle {
  int width = 100;    // columns
  bool color = false;
};

std::string DrawPlan(const PlanReport& report, const TableStyle& style);
std::string DrawPrice(const PriceReport& report, const TableStyle& style);
std::string DrawExplanation(const Explanation& explanation, const TableStyle& style);
std::string DrawComparison(const Comparison& comparison, const TableStyle& style);
std::string DrawModel(const Model& model, const TableStyle& style);
std::string DrawDevice(const Cluster& one_device, const TableStyle& style);

std::string PlanCsv(const PlanReport& report);  // ranked candidates, one row each, with a header
std::string PriceCsv(const PriceReport& report);

// "tp8 sp pp4 vpp2 dp2 zero1 mb1": what is not 1 or off, in a fixed order.
std::string LayoutText(const Layout& layout);
std::string RecomputeText(const RecomputePlan& plan);

}  // namespace restow
