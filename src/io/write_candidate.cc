// A candidate: its layout, its recompute, what it costs.
#include <fmt/format.h>

#include "io/write_json.h"

namespace restow::internal {
namespace {

Json StageRecomputeJson(const StageRecompute& stage) {
  Json json;
  json["layers"] = stage.layers;
  json["off"] = stage.off;
  json["selective"] = stage.selective;
  json["full"] = stage.full;
  json["swapped"] = stage.swapped;
  return json;
}

Json SubmoduleJson(const SubmoduleRecompute& submodule) {
  Json json;
  json["name"] = submodule.name;
  json["mode"] = Name(submodule.mode);
  json["keeps"] = submodule.keeps;
  return json;
}

// Runs of equal layers: [{"layers": "0-3", "mode": "full"}, ...].
Json LayerRuns(const std::vector<Recompute>& layers) {
  Json runs = Json::array();
  for (std::size_t first = 0; first < layers.size();) {
    std::size_t last = first;
    while (last + 1 < layers.size() && layers[last + 1] == layers[first]) ++last;
    Json run;
    run["layers"] = first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
    run["mode"] = Name(layers[first]);
    runs.push_back(run);
    first = last + 1;
  }
  return runs;
}

Json CandidateRecompute(const Candidate& candidate) {
  Json json = RecomputeJson(candidate.recompute);
  Json stages = Json::array();
  for (const StageRecompute& stage : candidate.stage_recompute) {
    stages.push_back(StageRecomputeJson(stage));
  }
  json["stages"] = stages;
  if (candidate.submodules.empty()) return json;
  Json submodules = Json::array();
  for (const SubmoduleRecompute& submodule : candidate.submodules) {
    submodules.push_back(SubmoduleJson(submodule));
  }
  json["submodules"] = submodules;
  return json;
}

Json WorstJson(const Candidate& candidate) {
  Json json;
  json["rank"] = candidate.worst_rank;
  json["stage"] = candidate.worst_stage;
  json["phase"] = Name(candidate.worst_phase);
  return json;
}

Json StagePeakJson(const StagePeak& peak) {
  Json json;
  json["stage"] = peak.stage;
  json["peak_bytes"] = peak.peak.value();
  json["phase"] = Name(peak.phase);
  return json;
}

}  // namespace

Json LayoutJson(const Layout& layout) {
  Json json;
  json["tp"] = layout.tp;
  json["sp"] = layout.sp;
  json["cp"] = layout.cp;
  if (layout.cp > 1) json["cp_kind"] = Name(layout.cp_kind);
  json["pp"] = layout.pp;
  json["vpp"] = layout.vpp;
  json["schedule"] = Name(layout.schedule);
  json["ep"] = layout.ep;
  json["etp"] = layout.etp;
  json["dp"] = layout.dp;
  json["zero"] = layout.zero;
  if (layout.zero_span != 0) json["zero_span"] = layout.zero_span;
  json["micro_batch"] = layout.micro_batch;
  json["micro_batches"] = layout.micro_batches;
  json["order"] = Name(layout.order);
  return json;
}

Json RecomputeJson(const RecomputePlan& plan) {
  Json json;
  json["mode"] = plan.uniform() ? Name(plan.mode) : "per-layer";
  json["granularity"] = "model";
  if (!plan.uniform()) json["layers"] = LayerRuns(plan.layers);
  return json;
}

Json MemoryJson(const MemoryTerms& terms) {
  Json json = Json::object();
  for (int i = 0; i < kMemoryTerms; ++i) {
    const Bytes bytes = terms[static_cast<std::size_t>(i)];
    if (bytes != Bytes()) json[Name(static_cast<MemoryTerm>(i))] = bytes.value();
  }
  return json;
}

Json TimeJson(const TimeTerms& terms) {
  Json json = Json::object();
  for (int i = 0; i < kTimeTerms; ++i) {
    const Seconds seconds = terms[static_cast<std::size_t>(i)];
    if (seconds != Seconds()) json[Name(static_cast<TimeTerm>(i))] = Number(seconds.value());
  }
  return json;
}

Json CandidateJson(const Candidate& candidate) {
  Json json;
  if (candidate.rank > 0) json["rank"] = candidate.rank;
  json["layout"] = LayoutJson(candidate.layout);
  json["recompute"] = CandidateRecompute(candidate);
  json["swap"]["bytes_per_device"] = 0;
  json["fits"] = candidate.fits;
  json["step_s"] = Number(candidate.step.value());
  json["tokens_per_s_per_device"] = Number(candidate.tokens_per_s_per_device);
  json["mfu"] = Number(candidate.mfu);
  json["peak_bytes"] = candidate.peak.value();
  json["peak_reserved_bytes"] = {candidate.reserved_low.value(), candidate.reserved_high.value()};
  json["capacity_bytes"] = candidate.capacity.value();
  if (candidate.outside > Bytes()) json["outside_bytes"] = candidate.outside.value();
  json["limit_bytes"] = candidate.limit.value();
  json["worst"] = WorstJson(candidate);
  json["memory"] = MemoryJson(candidate.memory);
  json["ranks"] = Json::array();
  for (const StagePeak& peak : candidate.ranks) json["ranks"].push_back(StagePeakJson(peak));
  json["time"] = TimeJson(candidate.time);
  json["hidden"] = TimeJson(candidate.hidden);
  if (!candidate.selective_note.empty()) json["selective_note"] = candidate.selective_note;
  return json;
}

}  // namespace restow::internal
