#include "validate/sweeps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "restow/base/text.h"
#include "validate/row.h"

namespace restow::validate {
namespace {

constexpr std::size_t kLeastRuns = 6;
constexpr double kTauMargin = 0.02;

std::string SweepName(const MeasuredRun& run) {
  const std::string& model = run.at("model_name");
  std::string name = fmt::format("{} {} {} x{} s{} {}", run.Source(), DeviceOf(run),
                                 Trim(model.substr(0, model.find('('))), Devices(run),
                                 run.at("seq_len"), run.at("precision").substr(0, 4));
  for (const char* software : {"placement", "grad_accumulate"}) {
    if (!run.Switch(software).empty()) name += " " + run.Switch(software);
  }
  return name + fmt::format(" {} layers", Whole(run, "layers", 0));
}

struct Times {
  std::vector<double> predicted, measured;
};

Sweep Judge(const std::string& name, const Times& times) {
  Sweep sweep;
  sweep.name = name;
  sweep.runs = static_cast<int>(times.measured.size());
  sweep.tau = KendallTau(times.predicted, times.measured, kTauMargin);
  const auto [low, high] = std::minmax_element(times.measured.begin(), times.measured.end());
  const auto pick = std::min_element(times.predicted.begin(), times.predicted.end());
  const auto chosen = times.measured[static_cast<std::size_t>(pick - times.predicted.begin())];
  sweep.regret_pct = 100 * (chosen / *low - 1);
  sweep.spread = *high / *low;
  return sweep;
}

}  // namespace

double KendallTau(const std::vector<double>& a, const std::vector<double>& b, double margin) {
  int sum = 0, pairs = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (std::abs(b[i] - b[k]) <= margin * std::min(b[i], b[k])) continue;
      const double agreement = (a[i] - a[k]) * (b[i] - b[k]);
      sum += agreement > 0 ? 1 : agreement < 0 ? -1 : 0;
      ++pairs;
    }
  }
  return pairs > 0 ? static_cast<double>(sum) / pairs : 1.0;
}

std::vector<Sweep> FindSweeps(const std::vector<ScoredRun>& scored) {
  std::map<std::string, Times> groups;
  std::vector<std::string> order;
  for (const ScoredRun& run : scored) {
    if (!run.time) continue;
    const std::string name = SweepName(*run.run);
    if (groups.count(name) == 0) order.push_back(name);
    const double batch = GlobalBatch(*run.run);
    groups[name].predicted.push_back(run.time->predicted / batch);
    groups[name].measured.push_back(run.time->measured / batch);
  }
  std::vector<Sweep> sweeps;
  for (const std::string& name : order) {
    if (groups[name].measured.size() >= kLeastRuns) sweeps.push_back(Judge(name, groups[name]));
  }
  return sweeps;
}

}  // namespace restow::validate
