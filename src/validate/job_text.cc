#include "validate/job_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "restow/base/text.h"
#include "restow/io/presets.h"
#include "validate/row.h"

namespace restow::validate {
namespace {

// GPT-2's, where the table leaves the vocabulary out: small against the layers either way.
constexpr int kUsualVocabulary = 50257;

// Lines of one YAML section with their indentation.
class Section {
 public:
  Section(std::string* out, const char* name) : out_(out) { *out_ += fmt::format("{}:\n", name); }

  template <class T>
  void Set(const char* key, const T& value) {
    *out_ += fmt::format("  {}: {}\n", key, value);
  }
  void Text(const char* key, const std::string& value) {
    std::string quoted = "\"";
    for (const char c : value) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
    Set(key, quoted + "\"");
  }

 private:
  std::string* out_;
};

const char* Truth(bool value) { return value ? "true" : "false"; }
bool On(const MeasuredRun& run, const char* name) { return run.Switch(name) == "1"; }

// "2/4/4/2".
std::vector<int> Counts(const std::string& text) {
  std::vector<int> counts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t slash = std::min(text.find('/', at), text.size());
    counts.push_back(std::atoi(text.substr(at, slash - at).c_str()));
    at = slash + 1;
  }
  return counts;
}

int SumOf(const std::vector<int>& counts) {
  int sum = 0;
  for (const int n : counts) sum += n;
  return sum;
}

// MindSpeed's command line, where the notes list it and the switches do not: "flags: a,b=1".
bool Flag(const MeasuredRun& run, const char* name) {
  const std::string& notes = run.at("compile_flash_notes");
  const std::size_t flags = notes.find("flags: ");
  return flags != std::string::npos && notes.find(name, flags) != std::string::npos;
}

// Layers of each virtual stage where the run states them.
std::vector<int> StatedChunks(const MeasuredRun& run) {
  if (!run.Switch("chunk_layers").empty()) return Counts(run.Switch("chunk_layers"));
  static const std::regex list(R"(num-layer-list=([\d,]+\d))");
  std::smatch m;
  const std::string& notes = run.at("compile_flash_notes");
  if (!std::regex_search(notes, m, list)) return {};
  std::string text = m[1].str();
  std::replace(text.begin(), text.end(), ',', '/');
  return Counts(text);
}

// ---- the model ------------------------------------------------------------------------------

struct Shape {
  int layers = 0;
  int experts = 0, first_dense = 0, every = 1;
  int window = 0;
  bool alternate = false;  // every second layer sees everything
};

Shape ShapeOf(const MeasuredRun& run) {
  Shape shape;
  shape.layers = Whole(run, "layers", 0);
  // Chunks that hold fewer layers than the column leave no-op layers out (MindSpeed noop-layers).
  const std::vector<int> chunks = StatedChunks(run);
  if (!chunks.empty()) shape.layers = SumOf(chunks);
  shape.experts = Whole(run, "n_experts", 0);
  shape.first_dense = WholeSwitch(run, "first_dense", Whole(run, "first_k_dense", 0));
  shape.every = std::max(1, WholeSwitch(run, "moe_every", 1));
  shape.window = WholeSwitch(run, "attention_window", 0);
  shape.alternate = On(run, "every_second_layer_global");
  return shape;
}

std::string Latent(const MeasuredRun& run) {
  // DeepSeek-V3's widths unless the switch states others.
  static const std::regex widths(R"(q(\d+)/kv(\d+)/nope(\d+)/rope(\d+)/v(\d+))");
  std::smatch m;
  const std::string text =
      run.Switch("mla").empty() ? "q1536/kv512/nope128/rope64/v128" : run.Switch("mla");
  if (!std::regex_match(text, m, widths)) return "";
  return fmt::format("{{q_rank: {}, kv_rank: {}, nope_dim: {}, rope_dim: {}, value_dim: {}}}",
                     m[1].str(), m[2].str(), m[3].str(), m[4].str(), m[5].str());
}

// Fields of one layer but for its feed-forward: "hidden: 1, heads: 2, ...".
std::vector<std::string> LayerFields(const MeasuredRun& run) {
  const int heads = Whole(run, "heads", 0), hidden = Whole(run, "hidden", 0);
  std::vector<std::string> fields = {fmt::format("hidden: {}", hidden),
                                     fmt::format("heads: {}", heads)};
  const auto add = [&fields](const std::string& text) { fields.push_back(text); };
  if (run.at("mla") == "1") {
    add("mla: " + Latent(run));
  } else {
    add(fmt::format("kv_heads: {}", std::max(1, Whole(run, "kv_heads", heads))));
    add(fmt::format("head_dim: {}", Whole(run, "head_dim", heads > 0 ? hidden / heads : 0)));
  }
  if (run.at("gated_mlp") == "0") add("gated: false");
  if (run.Switch("norm") == "layernorm") add("norm_bias: true");
  if (On(run, "qk_norm")) add("qk_norm: true");
  if (On(run, "linear_bias"))
    add("qkv_bias: true"), add("output_bias: true"), add("ffn_bias: true");
  return fields;
}

std::vector<std::string> ExpertFields(const MeasuredRun& run) {
  const int width = Whole(run, "moe_ffn", Whole(run, "ffn_hidden", 0));
  const int shared =
      WholeSwitch(run, "shared_expert_width", Whole(run, "shared_experts", 0) * width);
  std::vector<std::string> fields = {fmt::format("experts: {}", Whole(run, "n_experts", 0)),
                                     fmt::format("experts_per_token: {}", Whole(run, "topk", 0)),
                                     fmt::format("expert_ffn: {}", width)};
  if (shared > 0) fields.push_back(fmt::format("shared_ffn: {}", shared));
  if (run.Switch("activation") == "clamped-swiglu-bias") fields.push_back("expert_bias: true");
  return fields;
}

bool IsSparse(const Shape& shape, int layer) {
  if (shape.experts == 0 || layer < shape.first_dense) return false;
  return (layer - shape.first_dense) % shape.every == shape.every - 1;
}

bool IsWindowed(const Shape& shape, int layer) {
  return shape.window > 0 && (!shape.alternate || layer % 2 == 0);
}

std::string KindName(bool sparse, bool windowed) {
  return std::string(sparse ? "moe" : "dense") + (windowed ? "-window" : "");
}

// Every kind of layer that occurs, and the runs in which they stand.
void WriteKinds(const MeasuredRun& run, const Shape& shape, Section& model) {
  std::string kinds, order;
  std::vector<std::string> known;
  std::string previous;
  int count = 0;
  const auto flush = [&] {
    if (count > 0) order += fmt::format("\n    - {{kind: {}, layers: {}}}", previous, count);
    count = 0;
  };
  for (int layer = 0; layer < shape.layers; ++layer) {
    const bool sparse = IsSparse(shape, layer), windowed = IsWindowed(shape, layer);
    const std::string name = KindName(sparse, windowed);
    if (name != previous) flush();
    previous = name;
    ++count;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    known.push_back(name);
    std::vector<std::string> fields = LayerFields(run);
    fields.insert(fields.begin(), "name: " + name);
    if (windowed) fields.push_back(fmt::format("window: {}", shape.window));
    if (sparse) {
      for (const std::string& field : ExpertFields(run)) fields.push_back(field);
    } else {
      fields.push_back(fmt::format("ffn: {}", Whole(run, "ffn_hidden", 0)));
    }
    kinds += fmt::format("\n    - {{{}}}", fmt::join(fields, ", "));
  }
  flush();
  model.Set("kinds", kinds);
  model.Set("order", order);
}

void WriteFamiliar(const MeasuredRun& run, const Shape& shape, std::string* out) {
  const auto line = [out](const std::string& field) { *out += "  " + field + "\n"; };
  line(fmt::format("layers: {}", shape.layers));
  for (const std::string& field : LayerFields(run)) line(field);
  if (shape.window > 0) line(fmt::format("window: {}", shape.window));
  line(fmt::format("ffn: {}", std::max(1, Whole(run, "ffn_hidden", Whole(run, "moe_ffn", 0)))));
  if (shape.experts == 0) return;
  for (const std::string& field : ExpertFields(run)) line(field);
  if (shape.first_dense > 0) line(fmt::format("first_dense: {}", shape.first_dense));
}

void WriteModel(const MeasuredRun& run, JobText* job) {
  Section model(&job->yaml, "model");
  model.Text("name", run.at("model_name"));
  const Shape shape = ShapeOf(run);
  const bool mixed =
      (shape.window > 0 && shape.alternate) || (shape.experts > 0 && shape.every > 1);
  if (mixed) {
    WriteKinds(run, shape, model);
  } else {
    WriteFamiliar(run, shape, &job->yaml);
  }
  int vocabulary = Whole(run, "vocab", WholeSwitch(run, "vocab", 0));
  if (vocabulary == 0) {
    vocabulary = kUsualVocabulary;
    job->assumed.push_back(fmt::format("vocabulary {}: not stated", vocabulary));
  }
  model.Set("vocab", vocabulary);
  if (run.at("tied_embed") == "1") model.Set("tied", "true");
  if (run.Switch("positions") == "learned") model.Set("positions", Whole(run, "seq_len", 0));
  if (run.Switch("norm") == "layernorm") model.Set("final_norm_bias", "true");
  const int mtp = WholeSwitch(run, "mtp_layers", 0);
  if (mtp > 0) model.Set("mtp_layers", mtp);
}

// ---- the cluster ----------------------------------------------------------------------------

void WriteCluster(const MeasuredRun& run, JobText* job) {
  Section cluster(&job->yaml, "cluster");
  const std::string device = DeviceOf(run);
  const int devices = Devices(run);
  cluster.Set("device", device);
  cluster.Set("devices", devices);
  const std::string& outer = run.Switch("scale_out_gbyte_per_s");
  if (outer.empty()) return;
  const Cluster usual = ClusterOf(DevicePreset(device), devices, 0);
  std::string levels;
  for (std::size_t i = 0; i < usual.levels.size(); ++i) {
    const Level& level = usual.levels[i];
    const bool network = i > 0 && i + 1 == usual.levels.size();
    levels +=
        fmt::format("\n    - {{name: {}, size: {}, bandwidth: {} GB/s}}", level.name, level.size,
                    network ? outer : fmt::format("{}", level.bandwidth.value() / 1e9));
  }
  cluster.Set("levels", levels);
}

// ---- training -------------------------------------------------------------------------------

const char* FrameworkOf(const MeasuredRun& run) {
  const std::string word = Lower(run.at("framework"));
  for (const char* own : {"megatron", "torchtitan", "mindspeed", "mindformers"}) {
    if (word == own) return own;
  }
  if (word == "megatron-deepspeed" || word == "deepspeed") return "deepspeed";
  // Tensor- and pipeline-parallel trainers that shard the optimizer only keep Megatron-LM's rules.
  if (word == "internlm") return "megatron";
  if (word == "automodel" || word == "nnscaler") return "torchtitan";
  return "torch";
}

// The software table of the calibration knows these by framework and release together.
std::string ReleaseOf(const MeasuredRun& run) {
  const std::string word = Lower(run.at("framework"));
  const std::string& release = run.at("release");
  const bool named = StartsWith(release, word) || word == "megatron" || word == "mindspeed";
  return named || word == "automodel" ? release : fmt::format("{} / {}", word, release);
}

const char* ComputeOf(const MeasuredRun& run) {
  const std::string text = Lower(run.at("precision"));
  if (Contains(text, "fp4")) return "fp4";
  if (Contains(text, "fp8")) return "fp8";
  if (Contains(text, "bf16") || text.empty()) return "bf16";
  return Contains(text, "fp16") ? "fp16" : "bf16";
}

void WritePrecision(const MeasuredRun& run, Section& training) {
  const std::string compute = ComputeOf(run);
  if (Contains(run.at("param_dtype"), "adamw states bf16")) {
    training.Set("precision",
                 "{compute: bf16, weights: bf16, gradients: bf16, master: none, optimizer: bf16}");
  } else {
    training.Set("precision", compute);
  }
}

// Switches that are spelt alike in a job's `training.options`.
constexpr const char* kSameSwitches[] = {"te",
                                         "wgrad_fusion",
                                         "grad_bytes",
                                         "optimizer_bytes",
                                         "loss",
                                         "deterministic",
                                         "flash_attention_bshd",
                                         "moe_grouped",
                                         "moe_pad",
                                         "moe_launch",
                                         "dispatcher",
                                         "ep_overlap",
                                         "tp_overlap",
                                         "async_tp",
                                         "interleave_group",
                                         "first_last_layers",
                                         "embedding_and_loss_count_as_layers",
                                         "deferred_embedding_wgrad",
                                         "reuse_fp32_params",
                                         "optimizer_swapped",
                                         "attention_offloaded",
                                         "read_after_first_iteration",
                                         "placement",
                                         "grad_accumulate",
                                         "activation",
                                         "vocabulary_unit"};
constexpr const char* kTruthSwitches[] = {"wgrad_fusion",
                                          "deterministic",
                                          "flash_attention_bshd",
                                          "moe_grouped",
                                          "moe_pad",
                                          "ep_overlap",
                                          "tp_overlap",
                                          "async_tp",
                                          "embedding_and_loss_count_as_layers",
                                          "reuse_fp32_params",
                                          "optimizer_swapped",
                                          "attention_offloaded",
                                          "read_after_first_iteration"};

bool IsTruth(const std::string& name) {
  return std::find(std::begin(kTruthSwitches), std::end(kTruthSwitches), name) !=
         std::end(kTruthSwitches);
}

// torchtune's README adds one switch per row; a row has those before it too.
void AddTorchtuneSteps(const MeasuredRun& run, std::vector<std::string>* lines) {
  const std::string& notes = run.at("compile_flash_notes");
  if (Lower(run.at("framework")) != "torchtune" || !Contains(notes, "cumulative")) return;
  constexpr const char* steps[] = {"packed",    "compile",
                                   "chunked",   "activation checkpointing",
                                   "optimizer", "activation offloading",
                                   "8-bit"};
  int last = 0;
  for (int i = 0; i < 7; ++i) {
    if (Contains(notes, steps[i])) last = i;
  }
  lines->push_back(fmt::format("compile: {}", Truth(last >= 1)));
  if (last >= 4) lines->push_back("grad_bytes: 0");  // optimizer step inside backward
  if (last >= 5) lines->push_back("attention_offloaded: true");
  if (last >= 6) lines->push_back("optimizer_bytes: 2");  // two 8-bit moments
}

bool TorchtuneChunked(const MeasuredRun& run) {
  const std::string& notes = run.at("compile_flash_notes");
  if (Lower(run.at("framework")) != "torchtune") return false;
  for (const char* step :
       {"chunked", "activation checkpointing", "optimizer", "activation offloading", "8-bit"}) {
    if (Contains(notes, step)) return true;
  }
  return false;
}

// torchtitan compiles its blocks in today's recipes; the first releases' tables say when.
void AddCompile(const MeasuredRun& run, std::vector<std::string>* lines) {
  if (run.at("framework") != "torchtitan" || !Contains(run.at("release"), "2024-03")) return;
  lines->push_back(
      fmt::format("compile: {}", Truth(Contains(run.at("compile_flash_notes"), "torch.compile"))));
}

// Layers that only divide with embedding and loss beside them: that is how they were split.
bool CountsEdges(const MeasuredRun& run) {
  if (!StatedChunks(run).empty() || !run.Switch("embedding_and_loss_count_as_layers").empty()) {
    return false;
  }
  const int parts = std::max(1, Whole(run, "pp", 1)) * VirtualStages(run);
  const int layers = Whole(run, "layers", 0);
  return parts > 1 && layers % parts != 0 && (layers + 2) % parts == 0;
}

void WriteOptions(const MeasuredRun& run, std::string* out) {
  std::vector<std::string> lines;
  for (const char* name : kSameSwitches) {
    const std::string& value = run.Switch(name);
    if (value.empty()) continue;
    lines.push_back(IsTruth(name) ? fmt::format("{}: {}", name, Truth(value == "1"))
                                  : fmt::format("{}: {}", name, value));
  }
  if (CountsEdges(run)) lines.push_back("embedding_and_loss_count_as_layers: true");
  const std::vector<int> chunks = StatedChunks(run);
  if (!chunks.empty()) lines.push_back(fmt::format("chunk_layers: [{}]", fmt::join(chunks, ", ")));
  for (const auto& [flag, option] : {std::pair{"reuse-fp32-param", "reuse_fp32_params"},
                                     std::pair{"swap-attention", "attention_offloaded"},
                                     std::pair{"swap-optimizer", "optimizer_swapped"}}) {
    if (run.Switch(option).empty() && Flag(run, flag))
      lines.push_back(fmt::format("{}: true", option));
  }
  const std::string& recipe = run.Switch("fp8_recipe");
  if (!recipe.empty() && recipe != "not stated") lines.push_back("fp8_recipe: " + recipe);
  if (run.Switch("softmax") == "fp32") lines.push_back("softmax_fp32: true");
  if (On(run, "dropout")) lines.push_back("dropout: 0.1");
  const std::vector<std::string> modules = RecomputeModules(run);
  if (!modules.empty()) {
    lines.push_back(fmt::format("recompute_modules: [{}]", fmt::join(modules, ", ")));
  }
  AddTorchtuneSteps(run, &lines);
  AddCompile(run, &lines);
  if (lines.empty()) return;
  *out += "  options:\n";
  for (const std::string& line : lines) *out += "    " + line + "\n";
}

const char* LossOf(const MeasuredRun& run) {
  const std::string& stated = run.Switch("loss");
  if (TorchtuneChunked(run)) return "chunked";
  if (stated == "te-fused") return "fused";
  if (!stated.empty()) return "unfused";
  const std::string framework = FrameworkOf(run);
  if (framework == "torchtitan") {
    // The first releases ran the loss eagerly; H200 runs of 2025 compile it (memory-model.md 8).
    return DeviceOf(run) == "h200" ? "fused" : "unfused";
  }
  const bool fused = framework == "megatron" && Lower(run.at("framework")) == "megatron";
  return fused ? "fused" : "unfused";
}

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

// ---- the layout -----------------------------------------------------------------------------

std::optional<int> ZeroOf(const MeasuredRun& run) {
  const std::string text = Lower(run.at("zero_stage_or_fsdp"));
  if (text.empty()) return std::nullopt;
  if (Contains(text, "fsdp") || Contains(text, "zero3") || Contains(text, "hsdp")) return 3;
  if (Contains(text, "zero2")) return 2;
  if (Contains(text, "zero1")) return 1;
  return 0;
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
  const int parts = std::max(1, Whole(run, "pp", 1)) * VirtualStages(run);
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
  return "off";
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
  const int most = Devices(run) / std::max(1, Whole(run, "pp", 1)) / etp;
  if (stated <= most || most < 1) return stated;
  job->assumed.push_back(
      fmt::format("ep {}: {} is stated, more than the devices of a stage", most, stated));
  return most;
}

void WriteLayout(const MeasuredRun& run, JobText* job) {
  const std::vector<bool> full = FullLayers(run);
  const std::string mode = ModeOf(run, job);
  if (!full.empty()) WriteLayerModes(full, &job->yaml);
  Section search(&job->yaml, "search");
  const int tp = std::max(1, Whole(run, "tp", 1)), pp = std::max(1, Whole(run, "pp", 1));
  const int cp = std::max(1, Whole(run, "cp", 1)), vpp = VirtualStages(run);
  const bool sparse = Whole(run, "n_experts", 0) > 0;
  search.Set("tp", tp);
  search.Set("sp", Truth(run.at("sp") == "1" && tp > 1));
  search.Set("cp", cp);
  if (cp > 1) {
    search.Set("cp_kind", run.Switch("cp_kind") == "all-to-all" ? "all-to-all" : "ring");
  }
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

}  // namespace

std::vector<std::string> RecomputeModules(const MeasuredRun& run) {
  static const std::vector<std::string> known = {
      "core_attn", "layernorm", "moe_act",        "mla_up_proj",
      "mlp",       "moe",       "shared_experts", "activation-function"};
  std::string text = run.at("recompute");
  if (text.empty()) {
    static const std::regex recipe(R"(recompute_modules=\[([^\]]+)\])");
    std::smatch m;
    if (std::regex_search(run.at("compile_flash_notes"), m, recipe))
      text = "selective " + m[1].str();
  }
  if (!StartsWith(text, "selective")) return {};
  static const std::regex word(R"([a-z_][a-z_\-]*)");
  std::vector<std::string> modules;
  for (std::sregex_iterator it(text.begin(), text.end(), word), end; it != end; ++it) {
    if (std::find(known.begin(), known.end(), it->str()) != known.end())
      modules.push_back(it->str());
  }
  return modules;
}

int VirtualStages(const MeasuredRun& run) {
  const std::vector<int> chunks = StatedChunks(run);
  const int pp = std::max(1, Whole(run, "pp", 1));
  if (!chunks.empty()) return std::max(1, static_cast<int>(chunks.size()) / pp);
  return std::max(1, Whole(run, "vpp", 1));
}

bool UnfusedAttention(const MeasuredRun& run) { return run.Switch("attention") == "unfused"; }

JobText WriteJobText(const MeasuredRun& run) {
  JobText job;
  job.yaml = fmt::format("# {} of {}\n", run.id, run.where.file);
  job.yaml += fmt::format("name: {}\n", run.id);
  WriteModel(run, &job);
  WriteCluster(run, &job);
  WriteTraining(run, &job);
  WriteLayout(run, &job);
  return job;
}

}  // namespace restow::validate
