// Small dense linear algebra for the fit.
#pragma once

#include <cstddef>
#include <vector>

namespace restow::validate {

// A symmetric positive definite matrix, row by row.
struct SquareMatrix {
  std::size_t n = 0;
  std::vector<double> cells;
  explicit SquareMatrix(std::size_t size) : n(size), cells(size * size, 0.0) {}
  double& at(std::size_t i, std::size_t k) { return cells[i * n + k]; }
  double at(std::size_t i, std::size_t k) const { return cells[i * n + k]; }
};

// Solves A·x = b by Cholesky. Throws kInternal when A is not positive definite.
std::vector<double> Solve(const SquareMatrix& a, const std::vector<double>& b);
// Diagonal of the inverse.
std::vector<double> InverseDiagonal(const SquareMatrix& a);

}  // namespace restow::validate
