// `current` and `search` of the job file made of a run: its layout and its recompute.
#include <algorithm>
#include <optional>
#include <regex>

#include "restow/base/error.h"
#include "restow/base/text.h"
#include "validate/job_text_parts.h"
#include "validate/row.h"
#include "validate/run_shape.h"

namespace restow::validate {
namespace {

std::optional<int> ZeroOf(const MeasuredRun& run) {
  const std::string text = Lower(run.at("zero_stage_or_fsdp"));
  if (text.empty()) return std::nullopt;
  if (Contains(text, "fsdp") || Contains(text, "zero3") || Contains(text, "hsdp")) return 3;
  if (Contains(text, "zero2")) return 2;
  if (Contains(text, "zero1")) return 1;
  if (StartsWith(text, "none") || StartsWith(text, "zero0") || text == "ddp") return 0;
  ThrowBadInput(fmt::format("sharding not understood: '{}'", text), run.where);
}

// Devices one shard spreads over, 0 for all.
int ZeroSpan(const MeasuredRun& run) {
  const int stated = WholeSwitch(run, "zero_span", 0);
  if (stated > 0) return std::min(stated, Devices(run));
  return On(run, "hybrid_sharding") ? std::min(Whole(run, "gpus_per_node", 8), Devices(run)) : 0;
}

// Layers of each chunk in order, where they are even or stated.
std::vector<int> ChunkLayers(const MeasuredRun& run) {
  std::vector<int> counts = StatedChunks(run);
  if (!counts.empty()) return counts;
  const int parts = PipelineStages(run) * VirtualStages(run);
  const int layers = ShapeOf(run).layers;
  counts.assign(static_cast<std::size_t>(parts), layers / parts);
  for (int i = 0; i < layers % parts; ++i) ++counts[static_cast<std::size_t>(i)];
  return counts;
}

// Modes by layer, for what is no one mode: "block 4 layers per stage", "every other layer".
std::vector<bool> FullLayers(const MeasuredRun& run) {
  const std::string& text = run.at("recompute");
  std::vector<bool> full;
  if (Contains(text, "every other")) {
    for (int i = 0; i < ShapeOf(run).layers; ++i) full.push_back(i % 2 == 0);
    return full;
  }
  static const std::regex block(R"(block (\d+))", std::regex::icase);
  std::smatch m;
  if (!std::regex_search(text, m, block)) return full;
  const int each = std::stoi(m[1].str());
  // Megatron-LM counts them in every model chunk of a stage.
  for (const int count : ChunkLayers(run)) {
    for (int i = 0; i < count; ++i) full.push_back(i < each);
  }
  return full;
}

std::string ModeOf(const MeasuredRun& run, JobText* job) {
  const std::string text = Lower(run.at("recompute"));
  if (text.empty()) {
    const std::vector<std::string> modules = RecomputeModules(run);
    job->assumed.push_back(modules.empty() ? "recompute off: not stated"
                                           : fmt::format("recompute of {}: the recipe in the notes",
                                                         fmt::join(modules, ", ")));
    return modules.empty() ? "off" : "selective";
  }
  for (const char* mode : {"off", "selective", "full"}) {
    if (StartsWith(text, mode)) return mode;
  }
  // A list by layer has no one mode.
  if (StartsWith(text, "block")) return "off";
  ThrowBadInput(fmt::format("recompute not understood: '{}'", text), run.where);
}

void WriteLayerModes(const std::vector<bool>& full, std::string* out) {
  *out += "current:\n  recompute:\n";
  for (std::size_t first = 0; first < full.size();) {
    std::size_t last = first;
    while (last + 1 < full.size() && full[last + 1] == full[first]) ++last;
    *out += fmt::format("    - {{layers: {}-{}, mode: {}}}\n", first, last,
                        full[first] ? "full" : "off");
    first = last + 1;
  }
}

// A table that prints the experts' degree of another run cannot mean more than a stage's devices.
int ExpertParallel(const MeasuredRun& run, int etp, JobText* job) {
  const int stated = std::max(1, Whole(run, "ep", 1));
  const int most = Devices(run) / PipelineStages(run) / etp;
  if (stated <= most || most < 1) return stated;
  job->assumed.push_back(
      fmt::format("ep {}: {} is stated, more than the devices of a stage", most, stated));
  return most;
}

std::string CpKindOf(const MeasuredRun& run) {
  const std::string& stated = run.Switch("cp_kind");
  if (stated.empty()) return "ring";
  if (stated == "ring" || stated == "all-to-all") return stated;
  ThrowBadInput(fmt::format("context parallelism not modelled: '{}'", stated), run.where);
}

}  // namespace

void WriteLayout(const MeasuredRun& run, JobText* job) {
  const std::vector<bool> full = FullLayers(run);
  const std::string mode = ModeOf(run, job);
  if (!full.empty()) WriteLayerModes(full, &job->yaml);
  Section search(&job->yaml, "search");
  const int tp = std::max(1, Whole(run, "tp", 1)), pp = PipelineStages(run);
  const int cp = std::max(1, Whole(run, "cp", 1)), vpp = VirtualStages(run);
  const bool sparse = Whole(run, "n_experts", 0) > 0;
  search.Set("tp", tp);
  search.Truth("sp", run.at("sp") == "1" && tp > 1);
  search.Set("cp", cp);
  if (cp > 1) search.Set("cp_kind", CpKindOf(run));
  search.Set("pp", pp);
  search.Set("vpp", vpp);
  if (pp > 1) search.Set("schedule", vpp > 1 ? "interleaved" : "1f1b");
  const int etp = sparse ? std::max(1, WholeSwitch(run, "etp", 1)) : 1;
  search.Set("ep", sparse ? ExpertParallel(run, etp, job) : 1);
  search.Set("etp", etp);
  search.Set("dp", DataParallel(run));
  if (const std::optional<int> zero = ZeroOf(run)) search.Set("zero", *zero);
  if (ZeroSpan(run) > 0) search.Set("zero_span", ZeroSpan(run));
  search.Set("micro_batch", MicroBatch(run));
  if (run.at("micro_batch").empty()) {
    job->assumed.push_back("micro-batch 1: not stated, and one sequence fills a pass");
  }
  if (full.empty()) search.Set("recompute", mode);
  // A run that came close to the device's end did run: nothing is kept free.
  search.Set("margin", "0 B");
}

}  // namespace restow::validate
