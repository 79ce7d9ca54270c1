// The planner held against measured runs.
#include "io/write_json.h"
#include "restow/io/write.h"
#include "restow/schema/validation.h"

namespace restow {

using internal::Json;
using internal::Number;

namespace {

Json FiguresJson(const ErrorFigures& figures) {
  Json json;
  json["n"] = figures.n;
  json["median_abs_pct"] = Number(figures.median_abs_pct);
  json["p95_abs_pct"] = Number(figures.p95_abs_pct);
  json["bias_pct"] = Number(figures.bias_pct);
  return json;
}

Json ScoreJson(const RunScore& score) {
  Json json;
  json["id"] = score.id;
  json["kind"] = Name(score.quantity);
  if (score.quantity == RunQuantity::kMemory) json["instrument"] = Name(score.instrument);
  json["measured"] = Number(score.measured);
  json["predicted"] = Number(score.predicted);
  json["pct"] = Number(score.pct());
  return json;
}

Json ScoresJson(const std::vector<RunScore>& scores) {
  Json json = Json::array();
  for (const RunScore& score : scores) json.push_back(ScoreJson(score));
  return json;
}

Json UnscorableJson(const std::vector<UnscorableReason>& reasons) {
  Json json = Json::array();
  for (const UnscorableReason& reason : reasons) {
    Json one;
    one["reason"] = reason.reason;
    one["memory_rows"] = reason.memory_rows;
    one["time_rows"] = reason.time_rows;
    json.push_back(one);
  }
  return json;
}

Json RankingJson(const Validation& v) {
  Json json;
  json["sweeps"] = v.sweeps.size();
  json["tau_median"] = Number(v.tau_median);
  json["tau_min"] = Number(v.tau_min);
  json["regret_median_pct"] = Number(v.regret_median_pct);
  json["regret_max_pct"] = Number(v.regret_max_pct);
  Json each = Json::array();
  for (const Sweep& sweep : v.sweeps) {
    Json one;
    one["name"] = sweep.name;
    one["runs"] = sweep.runs;
    one["tau"] = Number(sweep.tau);
    one["regret_pct"] = Number(sweep.regret_pct);
    one["spread"] = Number(sweep.spread);
    each.push_back(one);
  }
  json["each"] = each;
  return json;
}

Json GroupsJson(const Validation& v) {
  Json json = Json::array();
  for (const ErrorGroup& group : v.groups) {
    Json one;
    one[v.grouped_by] = group.name;
    one["memory"] = FiguresJson(group.memory);
    one["time"] = FiguresJson(group.time);
    json.push_back(one);
  }
  return json;
}

Json RanksJson(const RunReport& report) {
  Json json = Json::array();
  for (std::size_t s = 0; s < report.ranks.size(); ++s) {
    Json one;
    one["stage"] = s;
    one["measured"] = Number(report.ranks[s].first);
    one["predicted"] = Number(report.ranks[s].second);
    json.push_back(one);
  }
  return json;
}

Json LeftOutJson(const std::vector<LeftOut>& left_out) {
  Json json = Json::array();
  for (const LeftOut& left : left_out) {
    Json one;
    one["by"] = left.by;
    one["groups"] = left.groups;
    one["runs"] = left.runs;
    one["median_abs_pct"] = Number(left.median_abs_pct);
    one["p95_abs_pct"] = Number(left.p95_abs_pct);
    one["fitted_median_abs_pct"] = Number(left.fitted_median_abs_pct);
    one["fitted_p95_abs_pct"] = Number(left.fitted_p95_abs_pct);
    json.push_back(one);
  }
  return json;
}

Json FittedJson(const FittedConstant& c) {
  Json json;
  json["name"] = c.name;
  json["before"] = Number(c.before);
  json["value"] = Number(c.value);
  json["spread"] = Number(c.spread);
  json["rows"] = c.rows;
  json["determined"] = c.determined;
  if (!c.remark.empty()) json["remark"] = c.remark;
  return json;
}

}  // namespace

std::string ToJson(const CalibrationReport& report) {
  Json json = internal::Header("calibration", report.version);
  json["id"] = report.calibration.id;
  json["rows"] = report.calibration.rows;
  json["time_before"] = FiguresJson(report.time_before);
  json["time"] = FiguresJson(report.time);
  json["memory_before"] = FiguresJson(report.memory_before);
  json["memory"] = FiguresJson(report.memory);
  json["left_out"] = LeftOutJson(report.calibration.left_out);
  json["unscorable"] = UnscorableJson(report.unscorable);
  Json constants = Json::array();
  for (const FittedConstant& c : report.constants) constants.push_back(FittedJson(c));
  json["constants"] = constants;
  return internal::Text(json);
}

std::string ToJson(const Validation& v) {
  Json json = internal::Header("validation", v.version);
  json["calibration"] = internal::CalibrationJson(v.calibration_id, v.calibration_rows);
  json["left_out"] = LeftOutJson(v.left_out);
  json["rows"] = v.rows;
  json["unscorable"] = UnscorableJson(v.unscorable);
  json["memory"] = FiguresJson(v.memory);
  json["time"] = FiguresJson(v.time);
  json["oom"] = {{"known", v.oom_known}, {"called_fitting", v.oom_called_fitting}};
  json["fits"] = {{"known", v.fits_known}, {"called_oom", v.fits_called_oom}};
  json["ranking"] = RankingJson(v);
  json["by_" + v.grouped_by] = GroupsJson(v);
  json["worst"] = ScoresJson(v.worst);
  json["scores"] = ScoresJson(v.scores);
  return internal::Text(json);
}

std::string ToJson(const RunReport& report) {
  Json json = internal::Header("run", report.price ? report.price->version : "");
  json["id"] = report.id;
  json["job"] = report.job_text;
  json["assumed"] = report.assumed;
  if (!report.why_not_memory.empty()) json["memory_unscorable"] = report.why_not_memory;
  if (!report.why_not_time.empty()) json["time_unscorable"] = report.why_not_time;
  json["scores"] = ScoresJson(report.scores);
  json["ranks"] = RanksJson(report);
  json["candidate"] =
      report.price ? internal::CandidateJson(report.price->candidate) : Json(nullptr);
  return internal::Text(json);
}

}  // namespace restow
