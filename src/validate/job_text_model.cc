// `model` of the job file made of a run.
#include <algorithm>
#include <regex>

#include "restow/base/error.h"
#include "validate/job_text_parts.h"
#include "validate/row.h"
#include "validate/run_shape.h"

namespace restow::validate {
namespace {

// GPT-2's, where the table leaves the vocabulary out: small against the layers either way.
constexpr int kUsualVocabulary = 50257;

std::string Latent(const MeasuredRun& run) {
  // DeepSeek-V3's widths unless the switch states others.
  static const std::regex widths(R"(q(\d+)/kv(\d+)/nope(\d+)/rope(\d+)/v(\d+))");
  std::smatch m;
  const std::string text =
      run.Switch("mla").empty() ? "q1536/kv512/nope128/rope64/v128" : run.Switch("mla");
  if (!std::regex_match(text, m, widths)) {
    ThrowBadInput(fmt::format("latent attention not understood: '{}'", text), run.where);
  }
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

bool IsSparse(const RunShape& shape, int layer) {
  if (shape.experts == 0 || layer < shape.first_dense) return false;
  return (layer - shape.first_dense) % shape.every == shape.every - 1;
}

bool IsWindowed(const RunShape& shape, int layer) {
  return shape.window > 0 && (!shape.alternate || layer % 2 == 0);
}

std::string KindName(bool sparse, bool windowed) {
  return std::string(sparse ? "moe" : "dense") + (windowed ? "-window" : "");
}

// Every kind of layer that occurs, and the runs in which they stand.
void WriteKinds(const MeasuredRun& run, const RunShape& shape, Section& model) {
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

void WriteFamiliar(const MeasuredRun& run, const RunShape& shape, std::string* out) {
  const auto line = [out](const std::string& field) { *out += "  " + field + "\n"; };
  line(fmt::format("layers: {}", shape.layers));
  for (const std::string& field : LayerFields(run)) line(field);
  if (shape.window > 0) line(fmt::format("window: {}", shape.window));
  line(fmt::format("ffn: {}", std::max(1, Whole(run, "ffn_hidden", Whole(run, "moe_ffn", 0)))));
  if (shape.experts == 0) return;
  for (const std::string& field : ExpertFields(run)) line(field);
  if (shape.first_dense > 0) line(fmt::format("first_dense: {}", shape.first_dense));
}

}  // namespace

void WriteModel(const MeasuredRun& run, JobText* job) {
  Section model(&job->yaml, "model");
  model.Text("name", run.at("model_name"));
  const RunShape shape = ShapeOf(run);
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
  if (run.at("tied_embed") == "1") model.Truth("tied", true);
  if (run.Switch("positions") == "learned") model.Set("positions", Whole(run, "seq_len", 0));
  if (run.Switch("norm") == "layernorm") model.Truth("final_norm_bias", true);
  const int mtp = WholeSwitch(run, "mtp_layers", 0);
  if (mtp > 0) model.Set("mtp_layers", mtp);
}

}  // namespace restow::validate
