#include "report/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "restow/base/units.h"
#include "restow/report/table.h"

namespace restow {
namespace {

// The schedule that `vpp` implies goes without saying.
bool IsUsual(const Layout& layout) {
  if (layout.pp == 1) return true;
  return layout.schedule == (layout.vpp > 1 ? Schedule::kInterleaved : Schedule::k1F1B);
}

void AddDegree(std::string& text, const char* name, int value) {
  if (value > 1) text += fmt::format("{}{} ", name, value);
}

}  // namespace

std::string LayoutText(const Layout& layout) {
  std::string text;
  AddDegree(text, "tp", layout.tp);
  if (layout.sp) text += "sp ";
  AddDegree(text, "cp", layout.cp);
  if (layout.cp > 1 && layout.cp_kind != CpKind::kRing)
    text += std::string(Name(layout.cp_kind)) + ' ';
  AddDegree(text, "pp", layout.pp);
  AddDegree(text, "vpp", layout.vpp);
  if (!IsUsual(layout)) text += std::string(Name(layout.schedule)) + ' ';
  AddDegree(text, "ep", layout.ep);
  AddDegree(text, "etp", layout.etp);
  AddDegree(text, "dp", layout.dp);
  if (layout.zero > 0) {
    text += fmt::format("zero{}", layout.zero);
    if (layout.zero_span != 0) text += fmt::format("/{}", layout.zero_span);
    text += ' ';
  }
  if (layout.order != kDefaultOrder) text += Name(layout.order) + ' ';
  if (layout.micro_batch > 1 || text.empty()) return text + fmt::format("mb{}", layout.micro_batch);
  text.pop_back();
  return text;
}

std::string RecomputeText(const RecomputePlan& plan) {
  if (plan.uniform()) return Name(plan.mode);
  std::array<int, kRecomputeModes> count{};
  for (const Recompute mode : plan.layers) ++count[static_cast<std::size_t>(mode)];
  std::string text;
  for (int i = kRecomputeModes - 1; i >= 0; --i) {
    const int layers = count[static_cast<std::size_t>(i)];
    if (layers == 0) continue;
    if (!text.empty()) text += '+';
    text += fmt::format("{}:{}", Name(static_cast<Recompute>(i)), layers);
  }
  return text;
}

}  // namespace restow

namespace restow::report {
namespace {

template <class T>
double Largest(const std::vector<T>& values) {
  double largest = 0;
  for (const T& value : values) largest = std::max(largest, std::fabs(ValueOf(value)));
  return largest;
}

int Decimals(double largest) {
  if (largest >= 100) return 1;
  return largest >= 1 ? 2 : 3;
}

}  // namespace

double ValueOf(Seconds seconds) { return seconds.value(); }
double ValueOf(Bytes bytes) { return static_cast<double>(bytes.value()); }

std::string Scale::Number(double value) const {
  return fmt::format("{:.{}f}", value / factor, decimals);
}

Scale TimeScale(const std::vector<Seconds>& values) {
  const double largest = Largest(values);
  if (largest >= 1 || largest == 0) return {"s", 1, Decimals(largest)};
  return {"ms", 1e-3, Decimals(largest * 1e3)};
}

Scale SizeScale(const std::vector<Bytes>& values) {
  const double gib = static_cast<double>(kGiB), mib = static_cast<double>(kMiB);
  const double largest = Largest(values);
  if (largest >= 0.1 * gib || largest == 0) return {"GiB", gib, Decimals(largest / gib)};
  return {"MiB", mib, Decimals(largest / mib)};
}

std::string ShortPhase(Phase phase) {
  static constexpr const char* names[] = {"load",     "forward",  "backward",
                                          "loss fwd", "loss bwd", "optimizer"};
  return names[static_cast<std::size_t>(phase)];
}

std::string Place(int stage, Phase phase) {
  return fmt::format("stage {} in {}", stage, Name(phase));
}

std::string CandidateText(const Candidate& candidate) {
  return fmt::format("{}, {} micro-batches, recompute {}", LayoutText(candidate.layout),
                     FormatCount(candidate.layout.micro_batches),
                     RecomputeText(candidate.recompute));
}

std::string ModelLine(const std::string& job_name, const Model& model) {
  const ModelParameters parameters = CountParameters(model);
  std::string line = job_name.empty() ? "" : "job " + job_name + ", ";
  line += fmt::format("model {}, {} parameters", model.name, FormatParameters(parameters.total));
  if (parameters.active != parameters.total) {
    line += fmt::format(" ({} active)", FormatParameters(parameters.active));
  }
  return line;
}

std::string Signed(Bytes bytes) {
  if (bytes == Bytes()) return "0";
  return (bytes > Bytes() ? "+" : "") + FormatBytes(bytes);
}

std::string Signed(Seconds seconds) {
  if (seconds == Seconds()) return "0";
  return (seconds > Seconds() ? "+" : "") + FormatSeconds(seconds);
}

}  // namespace restow::report
