// Predicted against measured, as a picture: both axes logarithmic, the diagonal and ten percent to
// either side drawn in.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "restow/report/fidelity.h"

namespace restow {
namespace {

constexpr double kSize = 520, kLeft = 64, kTop = 20, kPlot = 430;
constexpr const char* kColours[] = {"#1b6ca8", "#c0392b", "#1e8449", "#9a5c00", "#6c3483",
                                    "#117a8b", "#b03a7e", "#5d6d1e", "#34495e", "#d35400"};

struct LogAxis {
  double low = 0, high = 1;  // log10
  double At(double value) const { return (std::log10(value) - low) / (high - low) * kPlot; }
};

LogAxis LogAxisOf(const std::vector<const RunScore*>& scores) {
  double low = 1e300, high = 1e-300;
  for (const RunScore* s : scores) {
    low = std::min({low, s->measured, s->predicted});
    high = std::max({high, s->measured, s->predicted});
  }
  return {std::log10(low) - 0.05, std::log10(high) + 0.05};
}

std::string Line(double x1, double y1, double x2, double y2, const char* style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n",
                     kLeft + x1, kTop + kPlot - y1, kLeft + x2, kTop + kPlot - y2, style);
}

std::string Text(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     text);
}

std::string Grid(const LogAxis& axis) {
  std::string svg;
  for (int decade = static_cast<int>(std::ceil(axis.low)); decade <= axis.high; ++decade) {
    const double at = axis.At(std::pow(10.0, decade));
    svg += Line(at, 0, at, kPlot, "stroke=\"#ddd\"");
    svg += Line(0, at, kPlot, at, "stroke=\"#ddd\"");
    const std::string label = fmt::format("{:g}", std::pow(10.0, decade));
    svg += Text(kLeft + at, kTop + kPlot + 16, "middle", label);
    svg += Text(kLeft - 6, kTop + kPlot - at + 4, "end", label);
  }
  const double span = axis.high - axis.low;
  for (const double factor : {1.0, 1.1, 1 / 1.1}) {
    const double shift = std::log10(factor) / span * kPlot;
    const double from = std::max(0.0, -shift), to = std::min(kPlot, kPlot - shift);
    svg += Line(from, from + shift, to, to + shift,
                factor == 1.0 ? "stroke=\"#666\"" : "stroke=\"#bbb\" stroke-dasharray=\"4 4\"");
  }
  return svg;
}

std::string Dot(const LogAxis& axis, const RunScore& s, const char* colour) {
  return fmt::format(
      "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\" fill-opacity=\"0.6\"><title>{}: "
      "{:.4g} measured, {:.4g} predicted ({:+.1f} %)</title></circle>\n",
      kLeft + axis.At(s.measured), kTop + kPlot - axis.At(s.predicted), colour, s.id, s.measured,
      s.predicted, s.pct());
}

}  // namespace

std::string ScatterSvg(const Validation& validation, RunQuantity quantity) {
  std::vector<const RunScore*> scores;
  std::vector<std::string> sources;
  for (const RunScore& s : validation.scores) {
    if (s.quantity != quantity) continue;
    scores.push_back(&s);
    if (std::find(sources.begin(), sources.end(), s.source) == sources.end()) {
      sources.push_back(s.source);
    }
  }
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{0}\" viewBox=\"0 0 {0} "
      "{0}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{0}\" "
      "fill=\"white\"/>\n",
      kSize);
  if (scores.empty()) return svg + Text(kSize / 2, kSize / 2, "middle", "no figures") + "</svg>\n";
  const LogAxis axis = LogAxisOf(scores);
  svg += Grid(axis);
  for (const RunScore* s : scores) {
    const auto source = std::find(sources.begin(), sources.end(), s->source) - sources.begin();
    svg += Dot(axis, *s, kColours[static_cast<std::size_t>(source) % std::size(kColours)]);
  }
  const char* unit = quantity == RunQuantity::kMemory ? "GiB" : "seconds per step";
  svg += Text(kLeft + kPlot / 2, kTop + kPlot + 40, "middle", fmt::format("measured, {}", unit));
  svg += fmt::format(
      "<text transform=\"translate(16 {:.0f}) rotate(-90)\" text-anchor=\"middle\">predicted, "
      "{}</text>\n",
      kTop + kPlot / 2, unit);
  return svg + "</svg>\n";
}

}  // namespace restow
