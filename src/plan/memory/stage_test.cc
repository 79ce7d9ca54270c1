#include <gtest/gtest.h>

#include <random>

#include "plan/memory/test_support.h"

namespace restow::plan {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): helpers of this test only

Layout Pipeline(int pp, int micro_batches, int vpp = 1) {
  Layout layout;
  layout.pp = pp;
  layout.vpp = vpp;
  layout.micro_batches = micro_batches;
  layout.zero = 1;
  return layout;
}

Bytes Sum(const MemoryTerms& terms) {
  Bytes sum;
  for (const Bytes term : terms) sum += term;
  return sum;
}

Job MixtureJob() {
  Job job = Llama8b(4096);
  LayerKind moe = job.model.stack.kinds[0];
  Experts experts;
  experts.count = 16;
  experts.per_token = 2;
  experts.width = 4096;
  experts.shared_width = 2048;
  moe.feed_forward.experts = experts;
  job.model.stack.kinds.push_back(moe);
  for (std::size_t i = 2; i < job.model.stack.order.size(); ++i) job.model.stack.order[i] = 1;
  return job;
}

// Llama-3-8B, s 8192, two stages, fused loss, Megatron-LM, dp 4: bytes by hand.
TEST(AssembleStage, OfTheFirstStageOfLlama8bIsTheSumByHand) {
  Layout layout = Pipeline(2, 8);
  layout.dp = 4;
  const StageBytes stage = PriceEven(Llama8b(), layout, Recompute::kOff)[0];
  // Parameters: 16·218112000 + 128256·4096 = 4015128576... by parameters_test.cc.
  const std::int64_t n = 16 * std::int64_t{218112000} + std::int64_t{128256} * 4096;
  EXPECT_EQ(TermOf(stage, MemoryTerm::kWeights).value(), 2 * n);
  EXPECT_EQ(TermOf(stage, MemoryTerm::kGradients).value(), 4 * n);
  EXPECT_EQ(TermOf(stage, MemoryTerm::kOptimizer).value(), 12 * n / 4);
  // One stand-in per shape: 4096·(6144 + 4096 + 28672 + 14336) elements; one cuBLASLt workspace.
  EXPECT_EQ(TermOf(stage, MemoryTerm::kPlaceholders).value(), 2 * std::int64_t{4096} * 53248);
  EXPECT_EQ(TermOf(stage, MemoryTerm::kWorkspaces).value(), 32 * kMiB);
  // Two micro-batches of 16 layers at 139392 bytes per token; backward of the last layer 65536.
  EXPECT_EQ(TermOf(stage, MemoryTerm::kActivations).value(), 2 * 16 * std::int64_t{8192} * 139392);
  EXPECT_EQ(TermOf(stage, MemoryTerm::kWorking).value(), std::int64_t{8192} * 65536);
  EXPECT_EQ(TermOf(stage, MemoryTerm::kBuffers).value(), 2 * 8192 * 4096);  // the gradient owed
  EXPECT_EQ(stage.phase, Phase::kBackward);
}

TEST(AssembleStage, OfTheLastStageHoldsTheLossHead) {
  Layout layout = Pipeline(2, 8);
  layout.dp = 4;
  const StageBytes stage = PriceEven(Llama8b(), layout, Recompute::kOff)[1];
  EXPECT_EQ(stage.phase, Phase::kLossBackward);
  EXPECT_EQ(TermOf(stage, MemoryTerm::kActivations).value(), 16 * std::int64_t{8192} * 139392);
  // 6th + 2n by head_test.cc.
  EXPECT_EQ(TermOf(stage, MemoryTerm::kLossHead).value(),
            std::int64_t{8192} * (6 * 4096 + 2 * 128256));
  EXPECT_EQ(TermOf(stage, MemoryTerm::kWorking).value(), 0);
}

TEST(AssembleStage, TermsSumToThePeakAndAgreeWithTheSearchPath) {
  std::mt19937 random(3);
  const auto pick = [&](std::initializer_list<int> values) {
    return values.begin()[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random)];
  };
  for (int i = 0; i < 300; ++i) {
    Job job = pick({0, 1}) == 0 ? Llama8b() : MixtureJob();
    job.training.framework = static_cast<Framework>(pick({0, 1, 2, 3, 4, 5}));
    job.model.mtp_layers = pick({0, 0, 1});
    job.training.loss = static_cast<LossKernel>(pick({0, 1, 2}));
    job.training.options.read_after_first_iteration = pick({0, 1}) == 1;
    job.training.options.attention_offloaded = pick({0, 0, 1}) == 1;
    Layout layout = Pipeline(pick({1, 2, 4}), pick({1, 3, 8}), pick({1, 2}));
    layout.tp = pick({1, 2, 4});
    layout.sp = layout.tp > 1;
    layout.dp = pick({1, 2, 8});
    layout.zero = pick({0, 1, 2, 3});
    const Recompute mode = static_cast<Recompute>(pick({0, 1, 2}));
    for (const StageBytes& stage : PriceEven(job, layout, mode)) {
      EXPECT_EQ(Sum(stage.terms), stage.peak);
      for (const Bytes term : stage.terms) EXPECT_GE(term.value(), 0);
    }
  }
}

TEST(AssembleStage, EveryModeHasItsOwnBytes) {
  // Not every candidate is silently recomputed in full, and activations are not forgotten.
  const Layout layout = Pipeline(4, 16);
  const Bytes off = WorstOf(PriceEven(Llama8b(), layout, Recompute::kOff));
  const Bytes full = WorstOf(PriceEven(Llama8b(), layout, Recompute::kFull));
  const StageBytes stage = PriceEven(Llama8b(), layout, Recompute::kOff)[0];
  EXPECT_GT(off, full);
  EXPECT_GT(TermOf(stage, MemoryTerm::kActivations), TermOf(stage, MemoryTerm::kWeights));
}

TEST(AssembleStage, StagesDiffer) {
  const std::vector<StageBytes> stages = PriceEven(Llama8b(), Pipeline(4, 16), Recompute::kOff);
  for (std::size_t i = 1; i < stages.size(); ++i) {
    EXPECT_LT(TermOf(stages[i], MemoryTerm::kActivations),
              TermOf(stages[i - 1], MemoryTerm::kActivations));
  }
  EXPECT_EQ(TermOf(stages[0], MemoryTerm::kLossHead).value(), 0);
}

TEST(AssembleStage, ShardingNeverRaisesMemory) {
  for (const Job& job : {Llama8b(), MixtureJob()}) {
    for (int zero = 0; zero <= 3; ++zero) {
      Layout layout = Pipeline(1, 8);
      layout.zero = zero;
      layout.dp = 2;
      Bytes last = WorstOf(PriceEven(job, layout, Recompute::kOff));
      for (const int dp : {4, 8, 32}) {
        layout.dp = dp;
        const Bytes now = WorstOf(PriceEven(job, layout, Recompute::kOff));
        EXPECT_LE(now, last);
        last = now;
      }
      layout.sp = true;
      for (const int tp : {2, 4, 8}) {
        layout.tp = tp;
        const Bytes now = WorstOf(PriceEven(job, layout, Recompute::kOff));
        EXPECT_LT(now, last);
        last = now;
      }
    }
  }
}

TEST(AssembleStage, ZeroChangesNothingInAGroupOfOne) {
  for (const Framework framework : {Framework::kMegatron, Framework::kTorchtitan, Framework::kTorch,
                                    Framework::kMindSpeed, Framework::kHyperParallel}) {
    Job job = Llama8b();
    job.training.framework = framework;
    Layout layout = Pipeline(2, 8);
    layout.zero = 0;
    const Bytes plain = WorstOf(PriceEven(job, layout, Recompute::kOff));
    for (int zero = 1; zero <= 3; ++zero) {
      layout.zero = zero;
      EXPECT_EQ(WorstOf(PriceEven(job, layout, Recompute::kOff)), plain);
    }
  }
}

TEST(AssembleStage, GpipeHoldsEveryMicroBatch) {
  Layout layout = Pipeline(4, 16);
  layout.schedule = Schedule::kGpipe;
  const StageBytes gpipe = PriceEven(Llama8b(), layout, Recompute::kFull)[3];
  layout.schedule = Schedule::k1F1B;
  const StageBytes steady = PriceEven(Llama8b(), layout, Recompute::kFull)[3];
  EXPECT_EQ(TermOf(gpipe, MemoryTerm::kActivations).value(),
            16 * TermOf(steady, MemoryTerm::kActivations).value());
}

TEST(AssembleStage, RecomputeIsHiddenOnceTheStepIsThePeak) {
  // Read after one iteration: no moments in forward and backward, so a long optimizer state wins.
  Job job = Llama8b(512);
  job.training.framework = Framework::kMindSpeed;
  job.training.options.read_after_first_iteration = true;
  const StageBytes off = PriceEven(job, Pipeline(2, 8), Recompute::kOff)[0];
  const StageBytes full = PriceEven(job, Pipeline(2, 8), Recompute::kFull)[0];
  EXPECT_EQ(off.phase, Phase::kOptimizerStep);
  EXPECT_EQ(off.peak, full.peak);
  EXPECT_GT(TermOf(off, MemoryTerm::kOptimizerStep).value(), 0);
}

TEST(AssembleChunk, AnEmptyChunkKeepsWhatItPassesOn) {
  const Job job = Llama8b();
  const MemorySoftware software(job);
  const KindTable kinds(job.model);
  MicroShape shape;
  shape.pp = 2;
  const LayerBytesTable table = TableOf(software, kinds, shape);
  const ChunkBytes bytes = AssembleChunk(software, shape, Chunk{}, table, HeadBytes{}, 1, 0);
  EXPECT_EQ(bytes.saved.value(), 2 * 8192 * 4096);
  EXPECT_EQ(bytes.forward_extra.value(), 2 * 8192 * 4096);  // received
  EXPECT_EQ(AssembleChunk(software, shape, Chunk{}, table, HeadBytes{}, 0, 0).forward_extra.value(),
            0);
}

TEST(AssembleChunk, LayersBehindTheOneThatRunsHaveSavedNothingYet) {
  // One layer recomputed in full before one that keeps everything: when the first runs backward the
  // second has freed its tensors, so together they need no more than the second's backward does.
  const Job job = Llama8b();
  const MemorySoftware software(job);
  const KindTable kinds(job.model);
  const LayerBytesTable table = TableOf(software, kinds, MicroShape{});
  Chunk chunk;
  chunk.runs = {{0, Recompute::kFull, 1}, {0, Recompute::kOff, 1}};
  const ChunkBytes bytes = AssembleChunk(software, MicroShape{}, chunk, table, HeadBytes{}, 0, 0);
  EXPECT_EQ(bytes.backward_extra, table[0][0].backward_work);
  std::swap(chunk.runs[0], chunk.runs[1]);
  EXPECT_EQ(AssembleChunk(software, MicroShape{}, chunk, table, HeadBytes{}, 0, 0).backward_extra,
            table[0][2].backward_work);
}

TEST(AssembleStage, TorchGradientsAppearWhileActivationsGo) {
  Job job = Llama8b();
  job.training.framework = Framework::kTorch;
  Layout layout = Pipeline(1, 1);
  const StageBytes once = PriceEven(job, layout, Recompute::kOff)[0];
  layout.micro_batches = 2;
  const StageBytes twice = PriceEven(job, layout, Recompute::kOff)[0];
  EXPECT_EQ(TermOf(twice, MemoryTerm::kGradients).value(), 4 * std::int64_t{8030261248});
  EXPECT_GT(twice.peak, once.peak);
}

TEST(PriceReserved, IsABandAboveTheAllocatedPeak) {
  for (const Framework framework : {Framework::kMegatron, Framework::kTorchtitan, Framework::kTorch,
                                    Framework::kMindSpeed, Framework::kHyperParallel}) {
    Job job = Llama8b();
    job.training.framework = framework;
    const StageBytes stage = PriceEven(job, Pipeline(1, 8), Recompute::kFull)[0];
    const ReservedBand band = PriceReserved(MemorySoftware(job), stage);
    EXPECT_GT(band.low, stage.peak);
    EXPECT_GT(band.high, band.low);
  }
  // Megatron: 1.026 to 1.079 of what is allocated (memory-model.md section 13).
  StageBytes stage;
  stage.peak = Bytes(1000000);
  const ReservedBand band = PriceReserved(MemorySoftware(Llama8b()), stage);
  EXPECT_EQ(band.low.value(), 1026000);
  EXPECT_EQ(band.high.value(), 1079000);
}

}  // namespace
}  // namespace restow::plan
