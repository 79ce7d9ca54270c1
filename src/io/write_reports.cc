// The answers of plan, price, explain and compare.
#include "io/write_json.h"
#include "restow/io/write.h"

namespace restow {

using internal::CandidateJson;
using internal::Json;
using internal::Number;

namespace {

Json CountsJson(const CandidateCounts& counts) {
  Json json;
  json["total"] = counts.total;
  json["priced"] = counts.priced;
  json["refused"] = counts.refused;
  json["bounded"] = counts.bounded;
  return json;
}

Json RefusalJson(const Refusal& refusal) {
  Json json;
  json["rule"] = refusal.rule;
  json["count"] = refusal.count;
  Json example;
  example["layout"] = internal::LayoutJson(refusal.example);
  example["recompute"] = internal::RecomputeJson(refusal.example_recompute);
  example["numbers"] = internal::NumbersJson(refusal.numbers);
  example["detail"] = refusal.detail;
  json["example"] = example;
  return json;
}

void AddRule(Json& json, const Refusal& refusal) {
  json["rule"] = refusal.rule;
  json["detail"] = refusal.detail;
  json["numbers"] = internal::NumbersJson(refusal.numbers);
}

Json MissJson(const NearestMiss& miss) {
  Json json = CandidateJson(miss.candidate);
  json["shortfall_bytes"] = miss.shortfall.value();
  json["remedy"] = miss.remedy;
  return json;
}

template <class T, class Write>
Json List(const std::vector<T>& values, Write write) {
  Json json = Json::array();
  for (const T& value : values) json.push_back(write(value));
  return json;
}

// A layout that a rule keeps from being priced still says which one it is.
Json UnpricedJson(const Layout& layout, const RecomputePlan& recompute) {
  Json json;
  json["layout"] = internal::LayoutJson(layout);
  json["recompute"] = internal::RecomputeJson(recompute);
  json["fits"] = false;
  return json;
}

}  // namespace

std::string ToJson(const PlanReport& report) {
  Json json = internal::Header("plan-report", report.version);
  json["job"] = internal::JobJson(report.job_digest, report.job_name);
  json["model"] = internal::ModelJson(report.model);
  json["calibration"] = internal::CalibrationJson(report.calibration_id, report.calibration_rows);
  json["complete"] = report.complete;
  json["elapsed_s"] = Number(report.elapsed.value());
  json["candidates"] = CountsJson(report.candidates);
  json["refused"] = List(report.refused, RefusalJson);
  json["current"] = report.current ? CandidateJson(*report.current) : Json(nullptr);
  if (!report.current_note.empty()) json["current_note"] = report.current_note;
  json["ranked"] = List(report.ranked, CandidateJson);
  json["pareto"] = report.pareto;
  json["leaner"] = List(report.leaner, CandidateJson);
  json["nearest_misses"] = List(report.nearest_misses, MissJson);
  return internal::Text(json);
}

std::string ToJson(const PriceReport& report) {
  Json json = internal::Header("price", report.version);
  json["job"] = internal::JobJson(report.job_digest, report.job_name);
  json["model"] = internal::ModelJson(report.model);
  json["calibration"] = internal::CalibrationJson(report.calibration_id, report.calibration_rows);
  json["candidate"] = CandidateJson(report.candidate);
  if (report.refusal) AddRule(json, *report.refusal);
  return internal::Text(json);
}

std::string ToJson(const Explanation& explanation) {
  Json json = internal::Header("explanation", explanation.version);
  json["job"] = internal::JobJson(explanation.job_digest, explanation.job_name);
  json["candidate"] = explanation.candidate
                          ? CandidateJson(*explanation.candidate)
                          : UnpricedJson(explanation.layout, explanation.recompute);
  json["verdict"] = Name(explanation.verdict);
  if (explanation.rule) AddRule(json, *explanation.rule);
  if (explanation.over) {
    json["over"]["term"] = Name(explanation.over->first);
    json["over"]["bytes"] = explanation.over->second.value();
  }
  json["summary"] = explanation.summary;
  if (explanation.best) json["best"] = CandidateJson(*explanation.best);
  json["nearest"] = List(explanation.nearest, [](const NearestChange& nearest) {
    Json entry;
    entry["change"] = nearest.change;
    entry["candidate"] = CandidateJson(nearest.candidate);
    return entry;
  });
  return internal::Text(json);
}

std::string ToJson(const Comparison& comparison) {
  Json json = internal::Header("comparison", comparison.version);
  json["job"] = internal::JobJson(comparison.job_digest, comparison.job_name);
  if (!comparison.a_name.empty()) json["a_name"] = comparison.a_name;
  if (!comparison.b_name.empty()) json["b_name"] = comparison.b_name;
  json["a"] = CandidateJson(comparison.a);
  json["b"] = CandidateJson(comparison.b);
  json["difference"]["memory"] = internal::MemoryJson(comparison.memory_difference);
  json["difference"]["time"] = internal::TimeJson(comparison.time_difference);
  return internal::Text(json);
}

}  // namespace restow
