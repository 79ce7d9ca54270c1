#include "validate/figures.h"

#include <algorithm>
#include <cmath>

namespace restow::validate {

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
  return values[std::min(values.size(), std::max<std::size_t>(rank, 1)) - 1];
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

ErrorFigures FiguresOf(const std::vector<const RunScore*>& scores) {
  std::vector<double> errors, sizes;
  for (const RunScore* score : scores) {
    errors.push_back(score->pct());
    sizes.push_back(std::abs(score->pct()));
  }
  return {static_cast<int>(scores.size()), Median(sizes), Quantile(sizes, 0.95), Median(errors)};
}

}  // namespace restow::validate
