// Figures over many errors.
#pragma once

#include <vector>

#include "restow/schema/validation.h"

namespace restow::validate {

// The value below which a share q of them lies (the ceil(q·n)-th smallest); the median of an even
// number is the mean of the middle two. 0 for none.
double Quantile(std::vector<double> values, double q);
double Median(std::vector<double> values);

ErrorFigures FiguresOf(const std::vector<const RunScore*>& scores);

}  // namespace restow::validate
