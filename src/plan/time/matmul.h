// Seconds of matrix products and of memory-bound work. Source: time-model.md section 2, "Matrix
// product" and "Low precision".
#pragma once

#include "plan/time/machine.h"

namespace restow::plan {

// `count` products of m×k by k×n.
struct Product {
  double m = 0, n = 0, k = 0;
  double count = 1;
  double scale = 1;  // of the reached rate: grouped or unaligned products
};

// The larger of arithmetic at the share that the shape reaches (tiles of 128 rounded up, waves of
// tiles over the compute units, inner dimension) and of memory traffic; `out_bytes` per output.
double ProductSeconds(const Machine::Constants& k, const ProductRate& rate, const Product& product,
                      double out_bytes);

// A weight product m×k by k×n: forward, input gradient (m×n by n×k) and, where the weight learns,
// its gradient (n×m by m×k, accumulated), with the casts of low-precision inputs.
Pass WeightProduct(const Machine::Constants& k, const ProductRate& rate, const Product& product,
                   bool weight_gradient);

// Element-wise kernels that move `bytes` at their fused minimum.
inline double ElementwiseSeconds(const Machine::Constants& k, double bytes) {
  return bytes * k.traffic / k.memory;
}

}  // namespace restow::plan
