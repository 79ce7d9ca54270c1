#include "validate/rules.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>

#include "restow/base/text.h"
#include "validate/measurement.h"
#include "validate/row.h"
#include "validate/run_shape.h"

namespace restow::validate {
namespace {

struct Rule {
  const char* reason;
  bool memory, time;  // quantities it keeps from being scored
  bool (*hit)(const MeasuredRun& run);
};

bool Matches(const std::string& text, const char* pattern) {
  return std::regex_search(text, std::regex(pattern, std::regex::icase));
}

bool Missing(const MeasuredRun& run, std::initializer_list<const char*> columns) {
  return std::any_of(columns.begin(), columns.end(),
                     [&](const char* column) { return Whole(run, column, 0) <= 0; });
}

// State-space, linear or sparse attention, vision parts and adapters: no column describes them.
bool OtherLayers(const MeasuredRun& run) {
  return Matches(
      run.at("model_name"),
      "hybrid|mamba|nemotron[-_]?3(?!40)|nemotron[-_]?[hn]|qwen3[-_]?next|qwen3\\.[5-9]|"
      "deepseek[-_]?v?32|deepseek[-_]?v?4|deepseek-v3\\.2|glm[-_]?5|longcat|vlm|kimi.?linear");
}

bool FrozenWeights(const MeasuredRun& run) { return Matches(run.at("model_name"), "lora|peft"); }

bool ArchitectureMissing(const MeasuredRun& run) {
  return Missing(run, {"layers", "hidden", "heads"}) ||
         (Missing(run, {"ffn_hidden"}) && Missing(run, {"moe_ffn"}));
}

bool LayoutMissing(const MeasuredRun& run) {
  return Missing(run, {"tp", "pp"}) || (Whole(run, "n_experts", 0) > 0 && Missing(run, {"ep"}));
}

bool BatchBelowPass(const MeasuredRun& run) {
  return GlobalBatch(run) < DataParallel(run) * MicroBatch(run);
}

bool Offloads(const MeasuredRun& run) {
  const std::string& notes = run.at("compile_flash_notes");
  return Matches(notes,
                 "optimizer CPU offload|activation CPU offload|activation offloading|"
                 "8-bit AdamW|Muon") ||
         (Matches(notes, "cpu_offload_layers=[1-9]") &&
          Contains(run.at("zero_stage_or_fsdp"), "fsdp"));
}

bool OtherSchedule(const MeasuredRun& run) {
  return Contains(run.at("schedule"), "dual") || Contains(run.at("schedule"), "zero-bubble") ||
         Matches(run.at("schedule"), "\\bzb\\b|zbv");
}

bool NoMemoryFormulas(const MeasuredRun& run) {
  const std::string framework = Lower(run.at("framework"));
  for (const char* known : {"megatron", "megatron-deepspeed", "deepspeed", "torchtitan",
                            "torchtune", "torch", "mindspeed", "mindformers"}) {
    if (framework == known) return false;
  }
  return true;
}

bool UnclearFigure(const MeasuredRun& run) {
  return Matches(run.at("mem_metric"), "as in file|not stated|\"G\" in source|MB in source|at OOM");
}

bool RecipeUnstated(const MeasuredRun& run) {
  return Lower(run.at("framework")) == "torchtune" &&
         !Contains(run.at("compile_flash_notes"), "cumulative");
}

bool EightBitMegatron(const MeasuredRun& run) {
  return Lower(run.at("framework")) == "megatron" && Matches(run.at("precision"), "fp8|fp4");
}

bool HasTime(const MeasuredRun& run) {
  for (const char* column : {"measured_iter_time_s", "measured_tokens_per_s_per_gpu",
                             "measured_tflops_per_gpu", "measured_mfu"}) {
    if (Number(run, column)) return true;
  }
  return false;
}

// In this order; the first that holds is the reason given.
const std::vector<Rule>& Rules() {
  static const std::vector<Rule> rules = {
      {"no time measured", false, true, [](const MeasuredRun& r) { return !HasTime(r); }},
      {"confidence 1: a figure off a plot, or a field that matters is missing", false, true,
       [](const MeasuredRun& r) { return r.at("confidence") == "1"; }},
      {"layer kind not in the columns (state space, linear or sparse attention, vision)", true,
       true, OtherLayers},
      {"frozen weights (adapters)", true, true, FrozenWeights},
      {"architecture missing", true, true, ArchitectureMissing},
      {"width of an expert missing", false, true,
       [](const MeasuredRun& r) {
         return Whole(r, "n_experts", 0) > 8 && Missing(r, {"moe_ffn"});
       }},
      {"layout missing", true, true, LayoutMissing},
      {"device count unknown", true, true, [](const MeasuredRun& r) { return Devices(r) == 0; }},
      {"device not named, or no preset for it", true, true,
       [](const MeasuredRun& r) { return DeviceOf(r).empty(); }},
      {"sequence length missing", true, true,
       [](const MeasuredRun& r) { return Missing(r, {"seq_len"}); }},
      {"batch missing", false, true,
       [](const MeasuredRun& r) { return Missing(r, {"global_batch"}); }},
      {"micro-batch missing", true, true, [](const MeasuredRun& r) { return MicroBatch(r) == 0; }},
      {"batch below dp x micro-batch", true, true, BatchBelowPass},
      {"schedule not modelled", true, true, OtherSchedule},
      {"test run: deterministic kernels, bound by launches", false, true,
       [](const MeasuredRun& r) { return Matches(r.at("release"), " CI$"); }},
      {"host offload, or an update that is not Adam's", false, true, Offloads},
      {"framework without memory formulas", true, false, NoMemoryFormulas},
      {"recipe switches not in the columns", true, false, RecipeUnstated},
      {"unit or kind of the figure unclear", true, false, UnclearFigure},
      {"fp8 recipe (weight caches, saved dtype) not in the columns", true, false, EightBitMegatron},
      {"packed fine-tuning: tokens per micro-batch unknown", true, false,
       [](const MeasuredRun& r) { return Contains(r.at("model_name"), "SFT"); }},
      {"vocabulary missing", true, false,
       [](const MeasuredRun& r) {
         return Missing(r, {"vocab"}) && WholeSwitch(r, "vocab", 0) == 0;
       }},
      {"the source doubts its own figure", true, false,
       [](const MeasuredRun& r) { return Contains(r.at("compile_flash_notes"), "suspicious"); }},
  };
  return rules;
}

// Every column that is not a measurement, a remark or the run's name.
std::string ConfigurationOf(const MeasuredRun& run) {
  static const std::set<std::string> skipped = {"id",
                                                "source",
                                                "date",
                                                "measured_iter_time_s",
                                                "measured_tokens_per_s_per_gpu",
                                                "global_batch",
                                                "measured_tflops_per_gpu",
                                                "measured_mfu",
                                                "measured_peak_mem_gib",
                                                "mem_metric",
                                                "oom",
                                                "confidence",
                                                "flops_convention_note",
                                                "kv_heads",
                                                "head_dim",
                                                "heads"};
  std::string key = run.Source();
  for (const auto& [column, text] : run.fields) {
    if (skipped.count(column) == 0) key += "\x1f" + text;
  }
  // A process figure does not tell head counts apart: attention of one hidden size costs the same.
  if (InstrumentOf(run) != MemoryInstrument::kProcess) key += "\x1f" + run.at("heads");
  return key;
}

}  // namespace

std::string WhyUnscorable(const MeasuredRun& run, RunQuantity quantity) {
  for (const Rule& rule : Rules()) {
    const bool applies = quantity == RunQuantity::kMemory ? rule.memory : rule.time;
    if (applies && rule.hit(run)) return rule.reason;
  }
  return "";
}

void CountReason(const std::string& reason, RunQuantity quantity,
                 std::vector<UnscorableReason>* reasons) {
  auto found = std::find_if(reasons->begin(), reasons->end(),
                            [&](const UnscorableReason& r) { return r.reason == reason; });
  if (found == reasons->end()) found = reasons->insert(reasons->end(), {reason, 0, 0});
  ++(quantity == RunQuantity::kMemory ? found->memory_rows : found->time_rows);
}

std::set<std::string> Contradictions(const std::vector<MeasuredRun>& runs) {
  constexpr double kApart = 1.10;
  std::map<std::string, std::vector<const MeasuredRun*>> groups;
  for (const MeasuredRun& run : runs) {
    if (MeasuredGib(run)) groups[ConfigurationOf(run)].push_back(&run);
  }
  std::set<std::string> bad;
  for (auto& [key, group] : groups) {
    std::sort(group.begin(), group.end(), [](const MeasuredRun* a, const MeasuredRun* b) {
      return *MeasuredGib(*a) < *MeasuredGib(*b);
    });
    if (*MeasuredGib(*group.back()) <= kApart * *MeasuredGib(*group.front())) continue;
    // Two that disagree say nothing; of more, the middle one is believed.
    const double middle = *MeasuredGib(*group[group.size() / 2]);
    for (const MeasuredRun* run : group) {
      const bool off = std::abs(*MeasuredGib(*run) / middle - 1) > kApart - 1;
      if (group.size() <= 2 || off) bad.insert(run->id);
    }
  }
  return bad;
}

bool KernelLeftToLibrary(const MeasuredRun& run) {
  return Contains(run.at("compile_flash_notes"), "attention-backend=auto");
}

}  // namespace restow::validate
