#include <gtest/gtest.h>

#include "plan/memory/test_support.h"

namespace restow::plan {
namespace {

using testing::Llama8b;

HeadBytes Price(const Job& job, int tp = 1, bool sp = false, Recompute mode = Recompute::kOff) {
  MicroShape shape;
  shape.tp = tp;
  shape.sp = sp;
  const KindTable kinds(job.model);
  return PriceHeadBytes(MemorySoftware(job), kinds, shape, mode);
}

constexpr std::int64_t kTokens = 8192, kHidden = kTokens * 4096, kLogits = kTokens * 128256;

TEST(PriceHeadBytes, FusedLossOverwritesTheLogits) {
  // Norm input and output 4th, logits 2n; backward the gradient of the head's input, 2th.
  EXPECT_EQ(Price(Llama8b()).forward.value(), 4 * kHidden + 2 * kLogits);
  EXPECT_EQ(Price(Llama8b()).backward.value(), 4 * kHidden + 2 * kLogits + 2 * kHidden);
}

TEST(PriceHeadBytes, FusedLossUnderSequenceParallelismGathersItsInput) {
  // A quarter of the norms (4th); 128512/4 = 32128 padded rows of logits; the gathered input 2th,
  // its gradient 2th and 2th/4.
  EXPECT_EQ(Price(Llama8b(), 4, true).backward.value(),
            kHidden + 2 * kHidden + 2 * kTokens * 32128 + 2 * kHidden + 2 * kHidden / 4);
}

TEST(PriceHeadBytes, UnfusedLossTakesSixBytesPerLogit) {
  Job job = Llama8b();
  job.training.loss = LossKernel::kUnfused;
  EXPECT_EQ(Price(job).forward.value(), 4 * kHidden + 6 * kLogits);
  EXPECT_EQ(Price(job).backward.value(), 4 * kHidden + 6 * kLogits);
  job.training.options.loss = "native-fused";
  EXPECT_EQ(Price(job).forward.value(), 4 * kHidden + 6 * kLogits);
}

TEST(PriceHeadBytes, ChunksHoldOneEighthOfTheFp32Copy) {
  Job job = Llama8b();
  job.training.loss = LossKernel::kChunked;
  EXPECT_EQ(Price(job).forward.value(), 4 * kHidden + 2 * kLogits + 4 * kLogits / 8);
}

TEST(PriceHeadBytes, TheConstantOfTorchtitanFollowsLossAndRelease) {
  Job job = Llama8b();
  job.training.framework = Framework::kTorchtitan;
  EXPECT_EQ(Price(job).backward.value(), 4 * kLogits);
  job.training.loss = LossKernel::kUnfused;
  EXPECT_EQ(Price(job).backward.value(), 12 * kLogits);
  job.training.release = "torchtitan 2024-03";
  EXPECT_EQ(Price(job).backward.value(), 8 * kLogits);
  // Loss parallel: 16 bytes of a rank's logits, gathered input and its gradient.
  EXPECT_EQ(Price(job, 8, true).backward.value(), 16 * kLogits / 8 + 4 * kHidden);
}

TEST(PriceHeadBytes, EagerTorchKeepsItsNormTensors) {
  // Norm: fp32 input, normalised value and output, 8th; forward logits 2 + fp32 4 + log-softmax 4.
  Job job = Llama8b();
  job.training.framework = Framework::kTorch;
  job.training.loss = LossKernel::kUnfused;
  EXPECT_EQ(Price(job).forward.value(), 8 * kHidden + 10 * kLogits);
  EXPECT_EQ(Price(job).backward.value(), 8 * kHidden + 12 * kLogits);
}

TEST(PriceHeadBytes, MultiTokenPredictionKeepsALayerAndASecondHead) {
  Job job = Llama8b();
  job.training.loss = LossKernel::kUnfused;
  job.model.mtp_layers = 1;
  // 139392 bytes per token of a layer (saved_test.cc), 8th of joined inputs, fp32 softmax 4n.
  EXPECT_EQ(Price(job).mtp_saved.value(), kTokens * 139392 + 8 * kHidden + 4 * kLogits);
  EXPECT_EQ(Price(job, 1, false, Recompute::kFull).mtp_saved.value(),
            2 * kHidden + 8 * kHidden + 4 * kLogits);
  EXPECT_EQ(Price(Llama8b()).mtp_saved.value(), 0);
}

}  // namespace
}  // namespace restow::plan
