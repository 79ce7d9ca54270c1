#include "plan/time/matmul.h"

#include <gtest/gtest.h>

namespace restow::plan {
namespace {

// Round figures: 1 TFLOP/s reached, 1 TB/s, a wave of four tiles of 128 x 256, nothing else.
Machine::Constants Plain() {
  Machine::Constants k;
  k.wave = 4 * 128 * 256;
  k.memory = 1e12;
  k.wide = k.compute = {1e12, 2, 0};
  k.accumulate_bytes = 8;
  return k;
}

TEST(ProductSeconds, OfALargeProductIsItsArithmetic) {
  const Machine::Constants k = Plain();
  // 2 · 256 · 512 · 1000 = 262,144,000 FLOP at 1e12 per second.
  EXPECT_DOUBLE_EQ(ProductSeconds(k, k.wide, {256, 512, 1000}, 2), 2.62144e-4);
}

TEST(ProductSeconds, HalvesItsRateAtTheHalfWaveAndTheHalfInnerDimension) {
  Machine::Constants k = Plain();
  k.half_waves = 1;  // 256 x 512 outputs are one wave of 131,072
  EXPECT_DOUBLE_EQ(ProductSeconds(k, k.wide, {256, 512, 1000}, 2), 2 * 2.62144e-4);
  k.half_inner = 1000;
  EXPECT_DOUBLE_EQ(ProductSeconds(k, k.wide, {256, 512, 1000}, 2), 4 * 2.62144e-4);
}

TEST(ProductSeconds, RoundsRowsAndColumnsUpToTiles) {
  const Machine::Constants k = Plain();
  EXPECT_DOUBLE_EQ(ProductSeconds(k, k.wide, {129, 400, 1000}, 2),
                   ProductSeconds(k, k.wide, {256, 512, 1000}, 2));
}

TEST(ProductSeconds, OfAThinProductIsItsTraffic) {
  Machine::Constants k = Plain();
  k.wide.flops_per_s = 1e15;
  // One row: (1·4000 + 4000·8000)·2 + 8000·2 bytes = 64,024,000 over 1e12; arithmetic would be
  // 2·128·8064·4000/1e15 = 8.3 us.
  EXPECT_DOUBLE_EQ(ProductSeconds(k, k.wide, {1, 8000, 4000}, 2), 64.024e-6);
}

TEST(WeightProduct, RunsTwoProductsBackwardAndOnlyOneWhereTheWeightIsFrozen) {
  const Machine::Constants k = Plain();
  const Product product{1024, 2048, 4096};
  const Pass trained = WeightProduct(k, k.wide, product, true);
  const Pass frozen = WeightProduct(k, k.wide, product, false);
  EXPECT_DOUBLE_EQ(trained.backward, 2 * trained.forward);
  EXPECT_DOUBLE_EQ(frozen.backward, frozen.forward);
}

TEST(WeightProduct, PaysForAccumulatingManySmallWeightGradients) {
  Machine::Constants k = Plain();
  k.compute.flops_per_s = 1e15;
  // Weight gradient of 100 experts with 128 rows, 1024 x 1024: outputs alone are
  // 100 · 1024 · 1024 · 8 bytes = 0.84 ms; inputs 100·(2·1024·128)·2 = 52 MB more.
  const Pass pass = WeightProduct(k, k.compute, {128, 1024, 1024, 100}, true);
  const Pass frozen = WeightProduct(k, k.compute, {128, 1024, 1024, 100}, false);
  EXPECT_NEAR(pass.backward - frozen.backward, 0.8388608e-3 + 0.0524288e-3, 1e-9);
}

TEST(WeightProduct, CastsInputsForwardAndOutputGradientsBackward) {
  Machine::Constants k = Plain();
  const Product product{1024, 2048, 4096};
  const Pass plain = WeightProduct(k, k.compute, product, true);
  k.compute.cast_bytes = 4;
  const Pass cast = WeightProduct(k, k.compute, product, true);
  EXPECT_NEAR(cast.forward - plain.forward, 1024 * 4096 * 4 / 1e12, 1e-15);
  EXPECT_NEAR(cast.backward - plain.backward, 1024 * 2048 * 4 / 1e12, 1e-15);
}

}  // namespace
}  // namespace restow::plan
