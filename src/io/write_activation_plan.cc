// `restow.activation-plan/1`: what the engine of one stage carries out.
#include "io/write_json.h"
#include "restow/io/write.h"

namespace restow {

using internal::Json;
using internal::Number;

namespace {

Json PredictedJson(const ActivationRegion& region) {
  Json json;
  json["kept_bytes"] = region.predicted_kept.value();
  json["swapped_bytes"] = region.predicted_swapped.value();
  json["recompute_s"] = Number(region.predicted_recompute.value());
  return json;
}

Json RegionJson(const ActivationRegion& region) {
  Json json;
  json["module"] = region.module;
  json["mode"] = Name(region.mode);
  json["save"] = region.save;
  json["recompute"] = region.recompute;
  json["swap"] = region.swap;
  json["min_bytes"] = region.min_bytes.value();
  json["tier"] = region.tier;
  json["predicted"] = PredictedJson(region);
  return json;
}

}  // namespace

std::string ToJson(const ActivationPlan& plan) {
  Json json = internal::Header("activation-plan", plan.version);
  json["job"]["digest"] = plan.job_digest;
  json["framework"] = plan.framework;
  json["stage"] = plan.stage;
  json["stages"] = plan.stages;
  json["defaults"]["mode"] = Name(plan.default_mode);
  json["regions"] = Json::array();
  for (const ActivationRegion& region : plan.regions) json["regions"].push_back(RegionJson(region));
  json["swap"]["host_bytes_cap"] = plan.host_bytes_cap.value();
  json["swap"]["window_bytes"] = plan.window_bytes.value();
  json["swap"]["keep_last_region"] = plan.keep_last_region;
  return internal::Text(json);
}

}  // namespace restow
