#include "validate/least_squares.h"

#include <cmath>

#include "restow/base/error.h"

namespace restow::validate {
namespace {

// Lower triangle L with L·Lᵀ = A.
SquareMatrix Factor(const SquareMatrix& a) {
  SquareMatrix l(a.n);
  for (std::size_t i = 0; i < a.n; ++i) {
    for (std::size_t k = 0; k <= i; ++k) {
      double sum = a.at(i, k);
      for (std::size_t j = 0; j < k; ++j) sum -= l.at(i, j) * l.at(k, j);
      if (i != k) {
        l.at(i, k) = sum / l.at(k, k);
        continue;
      }
      if (!(sum > 0))
        throw Error(ErrorCode::kInternal, "the fit's matrix is not positive definite");
      l.at(i, i) = std::sqrt(sum);
    }
  }
  return l;
}

std::vector<double> SolveFactored(const SquareMatrix& l, std::vector<double> b) {
  for (std::size_t i = 0; i < l.n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= l.at(i, k) * b[k];
    b[i] /= l.at(i, i);
  }
  for (std::size_t i = l.n; i-- > 0;) {
    for (std::size_t k = i + 1; k < l.n; ++k) b[i] -= l.at(k, i) * b[k];
    b[i] /= l.at(i, i);
  }
  return b;
}

}  // namespace

std::vector<double> Solve(const SquareMatrix& a, const std::vector<double>& b) {
  return SolveFactored(Factor(a), b);
}

std::vector<double> InverseDiagonal(const SquareMatrix& a) {
  const SquareMatrix l = Factor(a);
  std::vector<double> diagonal(a.n);
  for (std::size_t i = 0; i < a.n; ++i) {
    std::vector<double> unit(a.n, 0.0);
    unit[i] = 1;
    diagonal[i] = SolveFactored(l, unit)[i];
  }
  return diagonal;
}

}  // namespace restow::validate
