#include <gtest/gtest.h>

#include "plan/memory/test_support.h"

namespace restow::plan {
namespace {

using testing::DenseKind;
using testing::JobOf;
using testing::Llama8b;

StageParameters LastStage() {
  StageParameters p;
  p.last = true;
  p.placeholders = 1000;
  p.grouped_placeholders = 100;
  p.output_table = std::int64_t{50} * 4096;
  return p;
}

ExtraBytes Price(const Job& job, const StageParameters& p) {
  return PriceExtras(MemorySoftware(job), p, MicroShape{});
}

TEST(PriceExtras, PlaceholdersCountEveryShapeOnceAndTheOutputLayer) {
  EXPECT_EQ(Price(Llama8b(), LastStage()).placeholders.value(), 2 * (1000 + 100 + 50 * 4096));
}

TEST(PriceExtras, PlaceholdersFollowTheVersionOfTransformerEngine) {
  Job job = Llama8b();
  job.training.options.te = "2.9";  // grouped linears since 2.10
  EXPECT_EQ(Price(job, LastStage()).placeholders.value(), 2 * (1000 + 50 * 4096));
  job.training.options.te = "2.2";
  EXPECT_EQ(Price(job, LastStage()).placeholders.value(), 0);
  job.training.options.te = "none";
  EXPECT_EQ(Price(job, LastStage()).placeholders.value(), 0);
  job.training.options.te = "latest";
  EXPECT_THROW(Price(job, LastStage()), Error);
}

TEST(PriceExtras, PlaceholdersNeedFusedWeightGradients) {
  Job job = Llama8b();
  job.training.options.wgrad_fusion = false;
  EXPECT_EQ(Price(job, LastStage()).placeholders.value(), 0);
}

TEST(PriceExtras, WorkspacesFollowGenerationAndStage) {
  // 32 MiB cuBLASLt; two of 32 MiB for PyTorch's cuBLAS; four of 32 MiB for grouped products.
  Job job = Llama8b();
  StageParameters p;
  EXPECT_EQ(Price(job, p).workspaces.value(), 32 * kMiB);
  p.last = true;
  EXPECT_EQ(Price(job, p).workspaces.value(), 96 * kMiB);
  p.has_experts = true;
  EXPECT_EQ(Price(job, p).workspaces.value(), 224 * kMiB);
  job.cluster.device.silicon = "a100";  // 4, 2·8, 4·4 MiB
  EXPECT_EQ(Price(job, p).workspaces.value(), 36 * kMiB);
  job.training.options.deterministic = true;  // 4, 2·32, 4·4 MiB
  EXPECT_EQ(Price(job, p).workspaces.value(), 84 * kMiB);
}

TEST(PriceExtras, AscendHasNone) {
  Job job = Llama8b();
  job.training.framework = Framework::kMindSpeed;
  EXPECT_EQ(Price(job, LastStage()).total().value(), 0);
}

TEST(PriceExtras, DeferredOutputGradientsKeepLogitsAndInputs) {
  Job job = Llama8b();
  job.training.options.deferred_embedding_wgrad = 3;
  EXPECT_EQ(Price(job, LastStage()).buffers.value(), 3 * 2 * std::int64_t{8192} * (50 + 4096));
}

TEST(PriceExtras, MegatronsOwnAttentionKeepsOneScoreBuffer) {
  Job job = JobOf(DenseKind(1024, 4096, 16, 16, 64), 2, 50257, 1024);
  job.training.attention = AttentionKernel::kUnfused;
  EXPECT_EQ(Price(job, StageParameters{}).buffers.value(), 0);
  job.training.options.te = "none";
  EXPECT_EQ(Price(job, StageParameters{}).buffers.value(), 2 * 16 * 1024 * 1024);
}

}  // namespace
}  // namespace restow::plan
