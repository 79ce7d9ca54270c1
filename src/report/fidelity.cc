#include "restow/report/fidelity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace restow {
namespace {

// Beyond these a miss is traced and explained.
constexpr double kMemoryMiss = 5, kTimeMiss = 15;

std::string FiguresCells(const ErrorFigures& f) {
  if (f.n == 0) return " | | | ";
  return fmt::format("{} | {:.1f} | {:.1f} | {:+.1f}", f.n, f.median_abs_pct, f.p95_abs_pct,
                     f.bias_pct);
}

std::string Groups(const Validation& v) {
  std::string text = fmt::format(
      "| {} | memory: runs | median % | p95 % | bias % | time: runs | median % | p95 % | bias % |\n"
      "|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
      v.grouped_by);
  for (const ErrorGroup& g : v.groups) {
    text += fmt::format("| {} | {} | {} |\n", g.name, FiguresCells(g.memory), FiguresCells(g.time));
  }
  return text +
         fmt::format("| **all** | {} | {} |\n", FiguresCells(v.memory), FiguresCells(v.time));
}

std::string Sweeps(const Validation& v) {
  std::string text = "| sweep | runs | tau | regret % | spread |\n|---|--:|--:|--:|--:|\n";
  for (const Sweep& s : v.sweeps) {
    text += fmt::format("| {} | {} | {:.2f} | {:.1f} | {:.2f} |\n", s.name, s.runs, s.tau,
                        s.regret_pct, s.spread);
  }
  return text;
}

std::string Unscorable(const Validation& v) {
  std::string text = "| not scored, because | memory | time |\n|---|--:|--:|\n";
  for (const UnscorableReason& r : v.unscorable) {
    text += fmt::format("| {} | {} | {} |\n", r.reason, r.memory_rows, r.time_rows);
  }
  return text;
}

std::string MissRow(const RunScore& s, const std::map<std::string, std::string>& explanations) {
  const bool memory = s.quantity == RunQuantity::kMemory;
  const auto found = explanations.find(s.id + (memory ? " memory" : " time"));
  return fmt::format("| {} | {} | {} | {:.4g} | {:.4g} | {:+.1f} | {} |\n", s.id, s.model,
                     memory ? "GiB" : "s", s.measured, s.predicted, s.pct(),
                     found == explanations.end() ? "not traced yet" : found->second);
}

std::string Misses(const std::vector<RunScore>& scores,
                   const std::map<std::string, std::string>& explanations) {
  std::string text =
      "| run | model | unit | measured | predicted | error % | traced to |\n"
      "|---|---|---|--:|--:|--:|---|\n";
  for (const RunScore& s : scores) text += MissRow(s, explanations);
  return text;
}

std::vector<RunScore> OtherMisses(const Validation& v) {
  std::vector<RunScore> misses;
  for (const RunScore& s : v.scores) {
    const double most = s.quantity == RunQuantity::kMemory ? kMemoryMiss : kTimeMiss;
    if (std::abs(s.pct()) <= most) continue;
    const bool shown = std::any_of(v.worst.begin(), v.worst.end(), [&](const RunScore& w) {
      return w.id == s.id && w.quantity == s.quantity;
    });
    if (!shown) misses.push_back(s);
  }
  std::stable_sort(misses.begin(), misses.end(), [](const RunScore& a, const RunScore& b) {
    return std::abs(a.pct()) > std::abs(b.pct());
  });
  return misses;
}

std::string LeftOutText(const Validation& v) {
  std::string text;
  for (const LeftOut& left : v.left_out) {
    text += fmt::format(
        "* With one {} at a time left out of the fit ({} fits): median {:.2f} % and p95 {:.1f} % "
        "over "
        "{} runs, against {:.2f} % and {:.1f} % of the same runs seen.\n",
        left.by, left.groups, left.median_abs_pct, left.p95_abs_pct, left.runs,
        left.fitted_median_abs_pct, left.fitted_p95_abs_pct);
  }
  return text;
}

}  // namespace

std::string FidelityPage(const Validation& v,
                         const std::map<std::string, std::string>& explanations,
                         const std::string& table, const std::string& name) {
  std::string page = fmt::format(
      "# How well the planner does against measured runs\n\n"
      "Made by `./run validate {} --page docs/{}.md`; do not edit. Errors are "
      "100·(predicted − measured)/measured; a bias is their median. Constants: {}, fitted on {} "
      "runs.\n\n",
      table, name, v.calibration_id, v.calibration_rows);
  page += fmt::format(
      "* {} runs: memory of {} and time of {} can be scored; why the others cannot stands below.\n"
      "* Memory: median {:.2f} %, p95 {:.1f} %. Time: median {:.2f} %, p95 {:.1f} %.\n"
      "* {} runs are known to have run out of memory: {} of them are called fitting. {} ran with "
      "their recompute stated: {} of them are called too large.\n",
      v.rows, v.memory.n, v.time.n, v.memory.median_abs_pct, v.memory.p95_abs_pct,
      v.time.median_abs_pct, v.time.p95_abs_pct, v.oom_known, v.oom_called_fitting, v.fits_known,
      v.fits_called_oom);
  page += LeftOutText(v);
  page += fmt::format("\n## By {}\n\n{}\n", v.grouped_by, Groups(v));
  page += fmt::format(
      "## Predicted against measured\n\n![memory]({0}-memory.svg) ![time]({0}-time.svg)\n\n"
      "The dashed lines are ten percent to either side.\n\n",
      name);
  page +=
      "## Rankings\n\nRuns that differ in layout or batch only, six or more. tau is Kendall's, "
      "over "
      "pairs more than 2 % apart; regret is what the planner's choice takes longer than the best, "
      "both measured.\n\n" +
      Sweeps(v) + "\n";
  page += "## The ten furthest off\n\n" + Misses(v.worst, explanations) + "\n";
  const std::vector<RunScore> others = OtherMisses(v);
  if (!others.empty()) {
    page += fmt::format("## Other misses beyond {:g} % in memory or {:g} % in time\n\n{}\n",
                        kMemoryMiss, kTimeMiss, Misses(others, explanations));
  }
  return page + "## Not scored\n\n" + Unscorable(v);
}

}  // namespace restow
