#include "validate/run_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <regex>

#include "restow/base/text.h"
#include "validate/row.h"

namespace restow::validate {
namespace {

// "2/4/4/2" or "2,4,4,2".
std::vector<int> Counts(const MeasuredRun& run, const std::string& text) {
  std::vector<int> counts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of("/,", at), text.size());
    int count = 0;
    const char* last = text.data() + end;
    const auto parsed = std::from_chars(text.data() + at, last, count);
    if (parsed.ec != std::errc() || parsed.ptr != last || count < 0) {
      ThrowBadInput(fmt::format("layers of chunks not understood: '{}'", text), run.where);
    }
    counts.push_back(count);
    at = end + 1;
  }
  return counts;
}

// Megatron-LM's and MindSpeed's names.
const std::vector<std::string>& KnownModules() {
  static const std::vector<std::string> known = {
      "core_attn", "layernorm", "moe_act",        "mla_up_proj",
      "mlp",       "moe",       "shared_experts", "activation-function"};
  return known;
}

// What stands behind "selective" in the column, or in the recipe that the notes quote.
std::string SelectiveList(const MeasuredRun& run) {
  const std::string& text = run.at("recompute");
  if (StartsWith(text, "selective")) return text.substr(std::string("selective").size());
  static const std::regex recipe(R"(recompute_modules=\[([^\]]+)\])");
  std::smatch m;
  const bool quoted = text.empty() && std::regex_search(run.at("compile_flash_notes"), m, recipe);
  return quoted ? m[1].str() : "";
}

}  // namespace

bool On(const MeasuredRun& run, const std::string& name) { return run.Switch(name) == "1"; }

std::vector<int> StatedChunks(const MeasuredRun& run) {
  if (!run.Switch("chunk_layers").empty()) return Counts(run, run.Switch("chunk_layers"));
  static const std::regex list(R"(num-layer-list=(\d+(?:,\d+)*))");
  std::smatch m;
  if (!std::regex_search(run.at("compile_flash_notes"), m, list)) return {};
  return Counts(run, m[1].str());
}

RunShape ShapeOf(const MeasuredRun& run) {
  RunShape shape;
  // Chunks that hold fewer layers than the column leave no-op layers out (MindSpeed noop-layers).
  const std::vector<int> chunks = StatedChunks(run);
  shape.layers =
      chunks.empty() ? Whole(run, "layers", 0) : std::accumulate(chunks.begin(), chunks.end(), 0);
  shape.experts = Whole(run, "n_experts", 0);
  shape.first_dense = WholeSwitch(run, "first_dense", Whole(run, "first_k_dense", 0));
  shape.every = std::max(1, WholeSwitch(run, "moe_every", 1));
  shape.window = WholeSwitch(run, "attention_window", 0);
  shape.alternate = On(run, "every_second_layer_global");
  return shape;
}

int PipelineStages(const MeasuredRun& run) { return std::max(1, Whole(run, "pp", 1)); }

int VirtualStages(const MeasuredRun& run) {
  const auto chunks = static_cast<int>(StatedChunks(run).size());
  if (chunks == 0) return std::max(1, Whole(run, "vpp", 1));
  return std::max(1, chunks / PipelineStages(run));
}

std::vector<std::string> RecomputeModules(const MeasuredRun& run) {
  const std::string list = SelectiveList(run);
  // Other frameworks' selective has no list; what stands there is a remark.
  const bool listed = run.at("framework") == "megatron" || run.at("framework") == "mindspeed";
  if (!listed) return {};
  static const std::regex word(R"([A-Za-z_][A-Za-z_\-]*)");
  std::vector<std::string> modules;
  for (std::sregex_iterator it(list.begin(), list.end(), word), end; it != end; ++it) {
    const std::vector<std::string>& known = KnownModules();
    if (std::find(known.begin(), known.end(), it->str()) == known.end()) {
      ThrowBadInput(fmt::format("recompute modules not understood: '{}'", list), run.where);
    }
    modules.push_back(it->str());
  }
  return modules;
}

bool UnfusedAttention(const MeasuredRun& run) { return run.Switch("attention") == "unfused"; }

}  // namespace restow::validate
