#include "validate/row.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "restow/base/text.h"

namespace restow::validate {
namespace {

std::optional<double> Parse(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

int ToWhole(const std::optional<double>& value, int fallback) {
  if (!value || std::abs(*value) > 2e9) return fallback;
  return static_cast<int>(std::lround(*value));
}

// Words of the hardware column and the preset they mean; the first that occurs wins.
constexpr std::pair<const char*, const char*> kDevices[] = {
    {"a100-pcie", ""},         {"a100-sxm 40", "a100-40"}, {"a100 40", "a100-40"},
    {"a100", "a100-80"},       {"500w", "h100-500w"},      {"94/96", "h100-500w"},
    {"h100 95", "h100-500w"},  {"h100 96", "h100-500w"},   {"gh200", ""},
    {"h100", "h100-sxm"},      {"h800", "h800"},           {"h200", "h200"},
    {"gb200", "gb200"},        {"gb300", "gb300"},         {"b200", "b200"},
    {"b300", "b300"},          {"mi300x", "mi300x"},       {"atlas a3", "ascend-910c"},
    {"900 a3", "ascend-910c"}, {"910c", "ascend-910c"},    {"not named in source", ""},
    {"ascend", "ascend-910b"}, {"v100", "v100"},
};

}  // namespace

std::optional<double> Number(const MeasuredRun& run, const std::string& column) {
  return Parse(run.at(column));
}

int Whole(const MeasuredRun& run, const std::string& column, int fallback) {
  return ToWhole(Number(run, column), fallback);
}

int WholeSwitch(const MeasuredRun& run, const std::string& name, int fallback) {
  return ToWhole(Parse(run.Switch(name)), fallback);
}

bool Contains(const std::string& text, const std::string& part) {
  return Lower(text).find(Lower(part)) != std::string::npos;
}

bool StartsWith(const std::string& text, const std::string& part) {
  return Lower(text).compare(0, part.size(), Lower(part)) == 0;
}

int DataParallel(const MeasuredRun& run) {
  const int dp = Whole(run, "dp", 0);
  if (dp > 0) return dp;
  const int per_replica = std::max(1, Whole(run, "tp", 1)) * std::max(1, Whole(run, "cp", 1)) *
                          std::max(1, Whole(run, "pp", 1));
  return Whole(run, "n_gpus", 0) / per_replica;
}

int Devices(const MeasuredRun& run) {
  const int stated = Whole(run, "n_gpus", 0);
  if (stated > 0) return stated;
  return Whole(run, "dp", 0) * std::max(1, Whole(run, "tp", 1)) * std::max(1, Whole(run, "cp", 1)) *
         std::max(1, Whole(run, "pp", 1));
}

int MicroBatch(const MeasuredRun& run) {
  const int stated = Whole(run, "micro_batch", 0);
  if (stated > 0) return stated;
  // One sequence of this many numbers fills a pass; more are not run in one. Only where the
  // schedule is stated, since a pipeline's bubble depends on it.
  constexpr double kFullPass = 1 << 25;
  const double pass = static_cast<double>(Whole(run, "seq_len", 0)) * Whole(run, "hidden", 0);
  const bool scheduled = Whole(run, "pp", 0) == 1 || Whole(run, "vpp", 0) > 0;
  return run.at("framework") == "megatron" && scheduled && pass >= kFullPass ? 1 : 0;
}

int GlobalBatch(const MeasuredRun& run) {
  const int stated = Whole(run, "global_batch", 0);
  return stated > 0 ? stated : MicroBatch(run) * DataParallel(run);
}

std::string DeviceOf(const MeasuredRun& run) {
  for (const auto& [words, preset] : kDevices) {
    if (Contains(run.at("hardware"), words)) return preset;
  }
  return "";
}

}  // namespace restow::validate
