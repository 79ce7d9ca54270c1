// `training` of the job file made of a run.
#include <array>

#include "restow/base/error.h"
#include "restow/base/text.h"
#include "validate/job_text_parts.h"
#include "validate/row.h"
#include "validate/run_shape.h"

namespace restow::validate {
namespace {

// Whose rules and buffers stand for those of the run's software.
const char* FrameworkOf(const MeasuredRun& run) {
  static constexpr std::pair<const char*, const char*> kFrameworks[] = {
      {"megatron", "megatron"},
      {"torchtitan", "torchtitan"},
      {"mindspeed", "mindspeed"},
      {"mindformers", "mindformers"},
      {"hyperparallel", "hyperparallel"},
      {"torch", "torch"},
      {"deepspeed", "deepspeed"},
      {"megatron-deepspeed", "deepspeed"},
      {"torchtune", "torch"},
      {"llm-foundry", "torch"},
      {"fms-fsdp", "torch"},
      // Tensor parallel with a sharded optimizer: Megatron-LM's rules.
      {"internlm", "megatron"},
      // FSDP2 with pipelines and expert parallelism: torchtitan's.
      {"automodel", "torchtitan"},
  };
  const std::string word = Lower(run.at("framework"));
  for (const auto& [name, own] : kFrameworks) {
    if (word == name) return own;
  }
  ThrowBadInput(fmt::format("framework not modelled: '{}'", run.at("framework")), run.where);
}

// The calibration's software table knows releases by their text; one that does not begin with the
// software's name gets it.
std::string ReleaseOf(const MeasuredRun& run) {
  const std::string word = Lower(run.at("framework"));
  const std::string& release = run.at("release");
  const bool named = Contains(release, word) || word == "megatron" || word == "mindspeed";
  return named ? release : fmt::format("{} / {}", word, release);
}

const char* ComputeOf(const MeasuredRun& run) {
  const std::string& text = run.at("precision");
  if (text.empty()) return "bf16";
  for (const char* dtype : {"fp4", "fp8", "bf16", "fp16", "fp32"}) {
    if (Contains(text, dtype)) return dtype;
  }
  ThrowBadInput(fmt::format("precision not understood: '{}'", text), run.where);
}

void WritePrecision(const MeasuredRun& run, Section& training) {
  if (Contains(run.at("param_dtype"), "adamw states bf16")) {
    training.Set("precision",
                 "{compute: bf16, weights: bf16, gradients: bf16, master: none, optimizer: bf16}");
  } else {
    training.Set("precision", ComputeOf(run));
  }
}

// torchtune's README adds one switch per row; a row has those before it too.
struct TorchtuneRecipe {
  bool stated = false;
  bool compiled = false, chunked_loss = false, step_in_backward = false, offloaded = false;
  bool eight_bit_states = false;
};

TorchtuneRecipe TorchtuneOf(const MeasuredRun& run) {
  const std::string& notes = run.at("compile_flash_notes");
  TorchtuneRecipe recipe;
  recipe.stated = Lower(run.at("framework")) == "torchtune" && Contains(notes, "cumulative");
  if (!recipe.stated) return recipe;
  constexpr std::array steps = {"packed",    "compile",
                                "chunked",   "activation checkpointing",
                                "optimizer", "activation offloading",
                                "8-bit"};
  std::size_t last = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (Contains(notes, steps[i])) last = i;
  }
  recipe.compiled = last >= 1;
  recipe.chunked_loss = last >= 2;
  recipe.step_in_backward = last >= 4;
  recipe.offloaded = last >= 5;
  recipe.eight_bit_states = last >= 6;
  return recipe;
}

void AddTorchtune(const TorchtuneRecipe& recipe, Section& options) {
  if (!recipe.stated) return;
  options.Truth("  compile", recipe.compiled);
  if (recipe.step_in_backward) options.Set("  grad_bytes", 0);
  if (recipe.offloaded) options.Truth("  attention_offloaded", true);
  if (recipe.eight_bit_states) options.Set("  optimizer_bytes", 2);  // two moments
}

// torchtitan compiles its blocks in today's recipes; the first releases' tables say when.
void AddCompile(const MeasuredRun& run, Section& options) {
  if (run.at("framework") != "torchtitan" || !Contains(run.at("release"), "2024-03")) return;
  options.Truth("  compile", Contains(run.at("compile_flash_notes"), "torch.compile"));
}

// A switch that a job's `training.options` spells alike.
struct SameSwitch {
  const char* name;
  bool truth;  // 0 and 1 stand for false and true
};
constexpr SameSwitch kSameSwitches[] = {
    {"te", false},
    {"wgrad_fusion", true},
    {"grad_bytes", false},
    {"optimizer_bytes", false},
    {"loss", false},
    {"deterministic", true},
    {"flash_attention_bshd", true},
    {"moe_grouped", true},
    {"moe_pad", true},
    {"moe_launch", false},
    {"dispatcher", false},
    {"ep_overlap", true},
    {"tp_overlap", true},
    {"async_tp", true},
    {"interleave_group", false},
    {"first_last_layers", false},
    {"embedding_and_loss_count_as_layers", true},
    {"deferred_embedding_wgrad", false},
    {"reuse_fp32_params", true},
    {"optimizer_swapped", true},
    {"attention_offloaded", true},
    {"read_after_first_iteration", true},
    {"placement", false},
    {"grad_accumulate", false},
    {"activation", false},
    {"vocabulary_unit", false},
};

// MindSpeed's command line, where the notes list it and the switches do not: "flags: a,b=1".
bool Flag(const MeasuredRun& run, const char* name) {
  const std::string& notes = run.at("compile_flash_notes");
  const std::size_t flags = notes.find("flags: ");
  return flags != std::string::npos && notes.find(name, flags) != std::string::npos;
}

void AddFlags(const MeasuredRun& run, Section& options) {
  for (const auto& [flag, option] : {std::pair{"reuse-fp32-param", "reuse_fp32_params"},
                                     std::pair{"swap-attention", "attention_offloaded"},
                                     std::pair{"swap-optimizer", "optimizer_swapped"}}) {
    if (!run.Switch(option).empty() || !Flag(run, flag)) continue;
    options.Truth(std::string("  ") + option, true);
  }
}

// Layers that only divide with embedding and loss beside them: that is how they were split.
bool CountsEdges(const MeasuredRun& run) {
  if (!StatedChunks(run).empty() || !run.Switch("embedding_and_loss_count_as_layers").empty()) {
    return false;
  }
  const int parts = PipelineStages(run) * VirtualStages(run);
  const int layers = Whole(run, "layers", 0);
  return parts > 1 && layers % parts != 0 && (layers + 2) % parts == 0;
}

void WriteOptions(const MeasuredRun& run, std::string* out) {
  std::string text;
  Section options(&text, "  options");
  const std::size_t empty = text.size();
  for (const SameSwitch& same : kSameSwitches) {
    const std::string& value = run.Switch(same.name);
    if (value.empty()) continue;
    const std::string key = std::string("  ") + same.name;
    if (same.truth) {
      options.Truth(key, value == "1");
    } else {
      options.Set(key, value);
    }
  }
  if (CountsEdges(run)) options.Truth("  embedding_and_loss_count_as_layers", true);
  const std::vector<int> chunks = StatedChunks(run);
  if (!chunks.empty()) {
    options.Set("  chunk_layers", fmt::format("[{}]", fmt::join(chunks, ", ")));
  }
  AddFlags(run, options);
  const std::string& recipe = run.Switch("fp8_recipe");
  if (!recipe.empty() && recipe != "not stated") options.Set("  fp8_recipe", recipe);
  if (run.Switch("softmax") == "fp32") options.Truth("  softmax_fp32", true);
  if (On(run, "dropout")) options.Set("  dropout", 0.1);
  const std::vector<std::string> modules = RecomputeModules(run);
  if (!modules.empty()) {
    options.Set("  recompute_modules", fmt::format("[{}]", fmt::join(modules, ", ")));
  }
  AddTorchtune(TorchtuneOf(run), options);
  AddCompile(run, options);
  if (text.size() > empty) *out += text;
}

const char* LossOf(const MeasuredRun& run) {
  const std::string& stated = run.Switch("loss");
  if (TorchtuneOf(run).chunked_loss) return "chunked";
  if (!stated.empty()) return stated == "te-fused" ? "fused" : "unfused";
  const std::string word = Lower(run.at("framework"));
  // torchtitan's loss is compiled from 2025 on; before, it ran eagerly (memory-model.md section 8).
  if (word == "torchtitan") return run.at("date") >= "2025" ? "fused" : "unfused";
  return word == "megatron" ? "fused" : "unfused";
}

}  // namespace

void WriteTraining(const MeasuredRun& run, JobText* job) {
  Section training(&job->yaml, "training");
  training.Set("sequence", Whole(run, "seq_len", 0));
  training.Set("global_batch", GlobalBatch(run));
  WritePrecision(run, training);
  training.Set("framework", FrameworkOf(run));
  training.Text("release", ReleaseOf(run));
  training.Set("attention", UnfusedAttention(run) ? "unfused" : "flash");
  training.Set("loss", LossOf(run));
  WriteOptions(run, &job->yaml);
}

}  // namespace restow::validate
