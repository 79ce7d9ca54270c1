#include <gtest/gtest.h>

#include "plan/memory/saved.h"
#include "plan/memory/test_support.h"

namespace restow::plan {
namespace {

using testing::Llama8b;

Job On(Framework framework) {
  Job job = Llama8b();
  job.training.framework = framework;
  return job;
}

LayerBytes Price(const Job& job, Recompute mode) {
  const MemorySoftware software(job);
  const KindTable kinds(job.model);
  return PriceLayerBytes(software, kinds.entries[0], MicroShape{}, mode);
}

constexpr std::int64_t kTokens = 8192;

TEST(TorchTensors, OfAnEagerLlamaBlockAreWhatItsOperatorsSave) {
  // Bytes of one token. Two norms: fp32 input 4·4096, normalised value 2·4096, output 2·4096 =
  // 32768 each; query 8192, key and value 4096, attention output 8192, log-sum-exp 128; gate,
  // silu(gate), up and their product 4·28672.
  EXPECT_EQ(Price(On(Framework::kTorch), Recompute::kOff).saved.value(),
            kTokens * (2 * 32768 + 8192 + 4096 + 8192 + 128 + 4 * 28672));
}

TEST(TorchTensors, OfACompiledBlockKeepEachPointwiseChainOnce) {
  // memory-model.md section 6: 8h + 4ad + 4gd + 6f and 4a bytes of one token.
  EXPECT_EQ(Price(On(Framework::kTorchtitan), Recompute::kOff).saved.value(),
            kTokens * (8 * 4096 + 4 * 4096 + 4 * 1024 + 6 * 14336 + 4 * 32));
}

TEST(TorchTensors, AreFewerWhenCompiled) {
  Job job = On(Framework::kTorch);
  const Bytes eager = Price(job, Recompute::kOff).saved;
  job.training.options.compile = true;
  EXPECT_LT(Price(job, Recompute::kOff).saved, eager);
}

TEST(TorchTensors, OfLayerNormAreItsInputAndStatistics) {
  Job job = On(Framework::kTorch);
  const Bytes rms = Price(job, Recompute::kOff).saved;
  job.model.stack.kinds[0].norm_bias = true;
  // Per norm fp32 input and normalised value (24576) become the input (8192) and 8 bytes.
  EXPECT_EQ(Price(job, Recompute::kOff).saved.value(), rms.value() + kTokens * 2 * (8200 - 24576));
}

TEST(TorchTensors, UnfusedAttentionExpandsKeysAndKeepsFp32Probabilities) {
  Job job = On(Framework::kTorch);
  job.training.sequence = 512;
  const Bytes flash = Price(job, Recompute::kOff).saved;
  job.training.attention = AttentionKernel::kUnfused;
  // Key and value for 32 heads instead of 8: 3·4096 more; 6 bytes for each of 32·512 scores of a
  // token, no log-sum-exp.
  EXPECT_EQ(Price(job, Recompute::kOff).saved.value(),
            flash.value() + 512 * (3 * 4096 + 6 * 32 * 512 - 128));
}

TEST(TorchSelective, KeepsAttentionAndEverySecondProduct) {
  // Input 8192, attention output 8192 and 128; of q, k, v, o, w1, w3, w2 the products q 8192, v
  // 2048, w1 28672 and w2 8192.
  EXPECT_EQ(Price(On(Framework::kTorchtitan), Recompute::kSelective).saved.value(),
            kTokens * (8192 + 8192 + 128 + 8192 + 2048 + 28672 + 8192));
}

TEST(TorchSelective, OfHyperParallelCountsExpertsAndCommunication) {
  Job job = On(Framework::kHyperParallel);
  Experts experts;
  experts.count = 64;
  experts.per_token = 4;
  experts.width = 1024;
  job.model.stack.kinds[0].feed_forward.experts = experts;
  const MemorySoftware software(job);
  const KindTable kinds(job.model);
  MicroShape shape;
  shape.ep = 8;
  // Input 8192, attention output 8192, statistics 64·32; of q, k, v, o, router, experts in, experts
  // out the products q 8192, v 2048, router 2·64 and out 4·8192; dispatch and combine 2·4·8192.
  EXPECT_EQ(PriceLayerBytes(software, kinds.entries[0], shape, Recompute::kSelective).saved.value(),
            kTokens * (8192 + 8192 + 2048 + 8192 + 2048 + 128 + 4 * 8192 + 8 * 8192));
}

TEST(TorchSelective, LiesBetweenOffAndFull) {
  for (const Framework framework :
       {Framework::kTorch, Framework::kTorchtitan, Framework::kHyperParallel}) {
    const Bytes selective = Price(On(framework), Recompute::kSelective).saved;
    EXPECT_LT(selective, Price(On(framework), Recompute::kOff).saved);
    EXPECT_GT(selective, Price(On(framework), Recompute::kFull).saved);
  }
}

TEST(TorchWork, OfABackwardIsTheWidestStepAndWhatIsRecomputed) {
  // 4f + 2h bytes of one token (memory-model.md section 10).
  const LayerBytes off = Price(On(Framework::kTorchtitan), Recompute::kOff);
  const LayerBytes full = Price(On(Framework::kTorchtitan), Recompute::kFull);
  EXPECT_EQ(off.backward_work.value(), kTokens * (4 * 14336 + 2 * 4096));
  EXPECT_EQ(full.saved + full.backward_work, off.saved + off.backward_work);
}

}  // namespace
}  // namespace restow::plan
