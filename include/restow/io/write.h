// Reports into JSON. One function per published schema; two-space indentation, keys in the order
// of docs/planner.md, a newline at the end. Bytes are integers, seconds shortest round-trip.
#pragma once

#include <string>
#include <vector>

#include "restow/schema/activation_plan.h"
#include "restow/schema/calibration_report.h"
#include "restow/schema/cluster.h"
#include "restow/schema/report.h"
#include "restow/schema/validation.h"

namespace restow {

std::string ToJson(const PlanReport& report);         // restow.plan-report/1
std::string ToJson(const PriceReport& report);        // restow.price/1
std::string ToJson(const Explanation& explanation);   // restow.explanation/1
std::string ToJson(const Comparison& comparison);     // restow.comparison/1
std::string ToJson(const Model& model);               // restow.model/1
std::string ToJson(const Cluster& one_device);        // restow.device/1
std::string ToJson(const ActivationPlan& plan);       // restow.activation-plan/1
std::string ToJson(const Validation& validation);     // restow.validation/1
std::string ToJson(const RunReport& run);             // restow.run/1
std::string ToJson(const CalibrationReport& report);  // restow.calibration/1
// The file that --calibration reads (YAML).
std::string CalibrationText(const Calibration& calibration);

// `[...]` of documents that are JSON already.
std::string JsonList(const std::vector<std::string>& documents);

// One file per stage in `folder`, which is made when missing: all of them or none, each whole.
// Returns their paths in the order of the stages. Errors: kBadInput naming what cannot be written.
std::vector<std::string> WriteActivationPlans(const std::string& folder,
                                              const std::vector<ActivationPlan>& plans);
// The file that an earlier export of more than `stages` stages left in `folder`, or "".
std::string StaleActivationPlan(const std::string& folder, std::size_t stages);
// What `export` writes for. Errors: kUnsupported for targets of later versions, kUsage for others.
void CheckExportTarget(const std::string& to);

// JSON Schema texts by name: job, plan-report, price, explanation, comparison, model, device,
// activation-plan. Errors: kUsage listing the names.
std::string JsonSchema(const std::string& name);
std::vector<std::string> JsonSchemaNames();

}  // namespace restow
