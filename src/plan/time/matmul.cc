#include "plan/time/matmul.h"

#include <algorithm>
#include <cmath>

namespace restow::plan {
namespace {

double UpToTile(double x) { return std::ceil(x / 128.0) * 128.0; }

}  // namespace

double ProductSeconds(const Machine::Constants& k, const ProductRate& rate, const Product& product,
                      double out_bytes) {
  const auto& [m, n, inner, count, scale] = product;
  if (m <= 0 || n <= 0 || inner <= 0) return 0.0;
  const double rows = UpToTile(m), columns = UpToTile(n);
  const double waves = rows * columns * count / k.wave;
  const double reached = rate.flops_per_s * scale * waves / (waves + k.half_waves) * inner /
                         (inner + k.half_inner);
  const double arithmetic = 2.0 * rows * columns * inner * count / reached;
  const double moved = count * ((m + n) * inner * rate.input_bytes + m * n * out_bytes);
  return std::max(arithmetic, moved / k.memory) + k.product_start;
}

Pass WeightProduct(const Machine::Constants& k, const ProductRate& rate, const Product& product,
                   bool weight_gradient) {
  const auto& [m, n, inner, count, scale] = product;
  const double out = k.element;
  Pass pass;
  pass.forward = ProductSeconds(k, rate, product, out);
  pass.backward = ProductSeconds(k, rate, {m, inner, n, count, scale}, out);
  if (weight_gradient) {
    pass.backward += ProductSeconds(k, rate, {n, inner, m, count, scale}, k.accumulate_bytes) +
                     count * n * inner * k.separate_bytes / k.memory;
  }
  const double cast = rate.cast_bytes * (count > 1 ? k.expert_cast : 1.0) * count / k.memory;
  return pass + Pass{m * inner * cast, m * n * cast};
}

}  // namespace restow::plan
