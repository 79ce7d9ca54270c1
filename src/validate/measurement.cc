#include "validate/measurement.h"

#include <algorithm>
#include <regex>

#include "restow/base/text.h"
#include "restow/io/presets.h"
#include "validate/row.h"

namespace restow::validate {
namespace {

struct Counts {
  double layers, hidden, heads, kv_heads, head_dim, vocab, sequence, batch;
};

Counts CountsOf(const MeasuredRun& run) {
  const double heads = Whole(run, "heads", 0), hidden = Whole(run, "hidden", 0);
  return {static_cast<double>(Whole(run, "layers", 0)),
          hidden,
          heads,
          static_cast<double>(Whole(run, "kv_heads", static_cast<int>(heads))),
          Number(run, "head_dim").value_or(heads > 0 ? hidden / heads : 0),
          static_cast<double>(Whole(run, "vocab", WholeSwitch(run, "vocab", 50257))),
          static_cast<double>(Whole(run, "seq_len", 0)),
          static_cast<double>(GlobalBatch(run))};
}

// Parameters of the feed-forward half that a token visits, mean over layers.
double FeedForward(const MeasuredRun& run, const Counts& c) {
  const double inputs = run.at("gated_mlp") == "0" ? 2 : 3;
  const double dense = inputs * c.hidden * Whole(run, "ffn_hidden", 0);
  const int experts = Whole(run, "n_experts", 0);
  if (experts == 0) return dense;
  const double width = Whole(run, "moe_ffn", Whole(run, "ffn_hidden", 0));
  const double visited = Whole(run, "topk", 0) + Whole(run, "shared_experts", 0);
  const double sparse = inputs * c.hidden * width * visited;
  const double every = std::max(1, WholeSwitch(run, "moe_every", 1));
  const double moe_layers = (c.layers - Whole(run, "first_k_dense", 0)) / every;
  return (moe_layers * sparse + (c.layers - moe_layers) * dense) / c.layers;
}

// FLOP of a step on one device by SC21's form, which counts the full recompute (arXiv:2104.04473,
// equation 3).
double Sc21Flops(const Counts& c) {
  return 96 * c.batch * c.sequence * c.layers * c.hidden * c.hidden *
         (1 + c.sequence / (6 * c.hidden) + c.vocab / (16 * c.layers * c.hidden));
}

// 6 per parameter and token and 12·layers·heads·width·sequence for attention, halved where the
// convention counts the causal half.
double ModelFlops(const MeasuredRun& run, const Counts& c) {
  const double weights =
      c.layers * (c.hidden * c.head_dim * (2 * c.heads + 2 * c.kv_heads) + FeedForward(run, c)) +
      c.vocab * c.hidden;
  const double causal = run.Switch("flops") == "full-attention" ? 1.0 : 0.5;
  return (6 * weights + 12 * c.layers * c.heads * c.head_dim * c.sequence * causal) * c.batch *
         c.sequence;
}

}  // namespace

std::optional<double> MeasuredSeconds(const MeasuredRun& run) {
  if (const auto seconds = Number(run, "measured_iter_time_s")) return seconds;
  const double devices = Devices(run);
  const Counts c = CountsOf(run);
  if (devices == 0 || c.batch == 0 || c.sequence == 0) return std::nullopt;
  if (const auto tokens = Number(run, "measured_tokens_per_s_per_gpu")) {
    return c.batch * c.sequence / (*tokens * devices);
  }
  if (c.layers == 0 || c.heads == 0) return std::nullopt;
  const double flops = run.Switch("flops") == "sc21" ? Sc21Flops(c) : ModelFlops(run, c);
  if (const auto tflops = Number(run, "measured_tflops_per_gpu")) {
    return flops / devices / (*tflops * 1e12);
  }
  const auto mfu = Number(run, "measured_mfu");
  const std::string device = DeviceOf(run);
  if (!mfu || device.empty() || run.Switch("flops").empty()) return std::nullopt;
  const FlopsPerSecond peak = DevicePreset(device).peak.at(DType::kBf16);
  return flops / devices / (*mfu / 100 * peak.value());
}

std::optional<double> MeasuredGib(const MeasuredRun& run) {
  return Number(run, "measured_peak_mem_gib");
}

MemoryInstrument InstrumentOf(const MeasuredRun& run) {
  const std::string metric = Lower(run.at("mem_metric"));
  if (Contains(metric, "nvidia-smi")) return MemoryInstrument::kProcess;
  // What stands first is the figure of the column; another may follow in parentheses.
  const std::string first = metric.substr(0, metric.find_first_of("(,;:"));
  return Contains(first, "reserved") ? MemoryInstrument::kReserved : MemoryInstrument::kAllocated;
}

bool MeasuresLastStage(const MeasuredRun& run) {
  return Contains(run.at("mem_metric"), "last rank only");
}

std::vector<double> MeasuredRanks(const MeasuredRun& run) {
  static const std::regex list(R"(per-rank (?:alloc )?(GiB|MiB) \[([^\]]*)\])");
  std::smatch m;
  const std::string& metric = run.at("mem_metric");
  if (!std::regex_search(metric, m, list)) return {};
  const double unit = m[1].str() == "MiB" ? 1.0 / 1024 : 1.0;
  std::vector<double> ranks;
  static const std::regex number(R"([0-9.]+)");
  const std::string values = m[2].str();
  for (std::sregex_iterator it(values.begin(), values.end(), number), end; it != end; ++it) {
    ranks.push_back(unit * std::stod(it->str()));
  }
  return ranks;
}

}  // namespace restow::validate
