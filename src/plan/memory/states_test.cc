#include <gtest/gtest.h>

#include "plan/memory/test_support.h"

namespace restow::plan {
namespace {

using testing::Llama8b;

StageParameters Dense(std::int64_t n) {
  StageParameters p;
  p.total.dense = n;
  p.largest_layer = n / 10;
  p.embedding = p.head = n / 100;
  p.largest_weight = n / 20;
  return p;
}

StateBytes Price(const Job& job, const StageParameters& p, int dp, int zero, int span = 0,
                 int micro_batches = 8) {
  Layout layout;
  layout.dp = dp;
  layout.zero = zero;
  layout.zero_span = span;
  layout.micro_batches = micro_batches;
  return PriceStates(MemorySoftware(job), p, layout);
}

constexpr std::int64_t kN = 1000000;

TEST(PriceStates, UnshardedMixedPrecisionTakesEighteenBytes) {
  // 2 weights + 4 gradients + 4 master + 8 moments (memory-model.md section 3).
  const StateBytes bytes = Price(Llama8b(), Dense(kN), 8, 0);
  EXPECT_EQ(bytes.weights.value(), 2 * kN);
  EXPECT_EQ(bytes.gradients.value(), 4 * kN);
  EXPECT_EQ(bytes.optimizer.value(), 12 * kN);
  EXPECT_EQ(bytes.total().value(), 18 * kN);
}

TEST(PriceStates, UnshardedDataParallelismSavesNothing) {
  EXPECT_EQ(Price(Llama8b(), Dense(kN), 64, 0).total(), Price(Llama8b(), Dense(kN), 1, 0).total());
}

TEST(PriceStates, EveryZeroLevelShardsOneMore) {
  EXPECT_EQ(Price(Llama8b(), Dense(kN), 8, 1).total().value(), 6 * kN + 12 * kN / 8);
  EXPECT_EQ(Price(Llama8b(), Dense(kN), 8, 2).total().value(), 2 * kN + 16 * kN / 8);
  // Level 3: two layers and both tables gathered in bf16; one layer's gradients in fp32 and bf16.
  const StateBytes bytes = Price(Llama8b(), Dense(kN), 8, 3);
  EXPECT_EQ((bytes.weights + bytes.gradients + bytes.optimizer).value(), 18 * kN / 8);
  EXPECT_EQ(bytes.gathered.value(), 2 * (2 * kN / 10 + 2 * kN / 100));
  EXPECT_EQ(bytes.reduce.value(), (4 + 2) * kN / 10);
}

TEST(PriceStates, AGroupOfOneShardsNothing) {
  for (const Framework framework : {Framework::kMegatron, Framework::kTorchtitan, Framework::kTorch,
                                    Framework::kMindSpeed, Framework::kHyperParallel}) {
    Job job = Llama8b();
    job.training.framework = framework;
    for (int zero = 1; zero <= 3; ++zero) {
      const StateBytes plain = Price(job, Dense(kN), 1, 0),
                       sharded = Price(job, Dense(kN), 1, zero);
      EXPECT_EQ(plain.total(), sharded.total());
      EXPECT_EQ(plain.step, sharded.step);
      EXPECT_EQ(plain.gathered, sharded.gathered);
      EXPECT_EQ(plain.optimizer, sharded.optimizer);
    }
  }
}

TEST(PriceStates, WiderGroupsNeverTakeMore) {
  for (const Framework framework :
       {Framework::kMegatron, Framework::kTorchtitan, Framework::kMindSpeed}) {
    Job job = Llama8b();
    job.training.framework = framework;
    for (int zero = 0; zero <= 3; ++zero) {
      Bytes last = Price(job, Dense(kN), 2, zero).total();
      for (const int dp : {4, 8, 64, 512}) {
        const Bytes now = Price(job, Dense(kN), dp, zero).total();
        EXPECT_LE(now, last);
        last = now;
      }
    }
  }
}

TEST(PriceStates, ASpanLimitsTheGroup) {
  EXPECT_EQ(Price(Llama8b(), Dense(kN), 64, 1, 8).total(),
            Price(Llama8b(), Dense(kN), 8, 1).total());
  EXPECT_EQ(Price(Llama8b(), Dense(kN), 4, 1, 8).total(),
            Price(Llama8b(), Dense(kN), 4, 1).total());
}

TEST(PriceStates, ExpertsAreShardedOverTheirOwnGroup) {
  StageParameters p;
  p.total.expert = kN;
  Layout layout;
  layout.dp = 8;
  layout.ep = 8;
  layout.zero = 1;
  // edp = 8·1·1/8 = 1: experts keep all 18 bytes.
  EXPECT_EQ(PriceStates(MemorySoftware(Llama8b()), p, layout).total().value(), 18 * kN);
  layout.tp = 4;  // edp = 8·4/8 = 4
  EXPECT_EQ(PriceStates(MemorySoftware(Llama8b()), p, layout).total().value(), 6 * kN + 3 * kN);
  layout.zero_span = 2;  // no wider than the stated span
  EXPECT_EQ(PriceStates(MemorySoftware(Llama8b()), p, layout).total().value(), 6 * kN + 6 * kN);
}

TEST(PriceStates, FsdpShardsSixteenBytes) {
  // fp32 parameters are their own master: 4 + 4 + 8 (memory-model.md section 10).
  Job job = Llama8b();
  job.training.framework = Framework::kTorchtitan;
  job.training.precision.weights = DType::kFp32;
  job.training.precision.master.reset();
  const StateBytes bytes = Price(job, Dense(kN), 8, 3);
  EXPECT_EQ((bytes.weights + bytes.gradients + bytes.optimizer).value(), 16 * kN / 8);
  // A stated master is that same parameter.
  job.training.precision.weights = DType::kBf16;
  job.training.precision.master = DType::kFp32;
  const StateBytes master = Price(job, Dense(kN), 8, 3);
  EXPECT_EQ((master.weights + master.gradients + master.optimizer).value(), 16 * kN / 8);
}

TEST(PriceStates, FrozenParametersHaveWeightsOnly) {
  StageParameters p = Dense(kN);
  p.total.frozen_dense = 3 * kN;
  EXPECT_EQ(Price(Llama8b(), p, 1, 0).total().value(), 18 * kN + 2 * 3 * kN);
  Job job = Llama8b();
  job.training.framework = Framework::kTorchtitan;
  const StateBytes bytes = Price(job, p, 8, 3);
  EXPECT_EQ(bytes.weights.value(), 2 * 3 * kN / 8);
  EXPECT_EQ(bytes.optimizer.value(), 12 * kN / 8);
}

TEST(PriceStates, OptimizersKeepTheirOwnMoments) {
  const auto optimizer = [](Optimizer kind) {
    Job job = Llama8b();
    job.training.optimizer = kind;
    return Price(job, Dense(kN), 1, 0).optimizer.value();
  };
  EXPECT_EQ(optimizer(Optimizer::kAdam), 12 * kN);
  EXPECT_EQ(optimizer(Optimizer::kSgd), 8 * kN);
  EXPECT_EQ(optimizer(Optimizer::kMuon), 8 * kN + 4 * 2 * kN / 100);  // AdamW on both tables
  EXPECT_EQ(optimizer(Optimizer::kAdafactor), 4 * kN);
}

TEST(PriceStates, StatedBytesPerParameterWin) {
  Job job = Llama8b();
  job.training.options.grad_bytes = 2;
  job.training.options.optimizer_bytes = 8;
  const StateBytes bytes = Price(job, Dense(kN), 4, 1);
  EXPECT_EQ(bytes.gradients.value(), 2 * kN);
  EXPECT_EQ(bytes.optimizer.value(), 8 * kN / 4);
  EXPECT_EQ(bytes.step.value(), 4 * kN / 4);  // 2-byte moments widened for the whole shard
}

TEST(PriceStates, SwitchesOfMindSpeed) {
  Job job = Llama8b();
  job.training.framework = Framework::kMindSpeed;
  job.training.options.read_after_first_iteration = true;
  const StateBytes plain = Price(job, Dense(kN), 4, 1);
  EXPECT_EQ(plain.moments.value(), 8 * kN / 4);
  // fp32 copy of the largest parameter that a quarter of the flat buffer holds, and 0.05 GiB.
  EXPECT_EQ(plain.step, WholeBytes(4.0 * kN / 20 + 0.05 * kGiB));
  job.training.options.reuse_fp32_params = true;
  EXPECT_EQ(Price(job, Dense(kN), 4, 1).optimizer.value(), 10 * kN / 4);
  job.training.options.optimizer_swapped = true;
  EXPECT_EQ(Price(job, Dense(kN), 4, 1).optimizer.value(), 0);
  EXPECT_EQ(Price(job, Dense(kN), 4, 1).moments.value(), 0);
}

TEST(PriceStates, TorchMakesGradientsInTheOnlyBackward) {
  Job job = Llama8b();
  job.training.framework = Framework::kTorch;
  EXPECT_EQ(Price(job, Dense(kN), 1, 0, 0, 1).late_gradients.value(), 4 * kN);
  EXPECT_EQ(Price(job, Dense(kN), 1, 0, 0, 2).late_gradients.value(), 0);
  EXPECT_EQ(Price(job, Dense(kN), 8, 0).gradients.value(), 8 * kN);  // DDP's buckets beside them
  EXPECT_EQ(Price(job, Dense(kN), 1, 0).step.value(), 4 * kN);       // foreach: one square root
}

}  // namespace
}  // namespace restow::plan
