#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/memory/saved.h"
#include "plan/memory/test_support.h"

namespace restow::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Llama8b;

std::int64_t Saved(const Job& job, Recompute mode) {
  const MemorySoftware software(job);
  const KindTable kinds(job.model);
  return PriceLayerBytes(software, kinds.entries[0], MicroShape{}, mode).saved.value();
}

TEST(Selective, CoreAttentionUnderFlashAndGroupedQueriesKeepsMore) {
  // Statistics (128) go, query and key of the fused product (8192 + 2048) stay.
  const Job job = Llama8b();
  EXPECT_EQ(Saved(job, Recompute::kSelective) - Saved(job, Recompute::kOff),
            std::int64_t{8192} * (8192 + 2048 - 128));
  EXPECT_THAT(SelectiveNote(MemorySoftware(job)), HasSubstr("next to nothing"));
}

TEST(Selective, CoreAttentionUnderLatentAttentionPinsNothing) {
  Job job = Llama8b();
  job.model.stack.kinds[0].attention.latent = LatentAttention{0, 512, 128, 64, 128};
  EXPECT_EQ(Saved(job, Recompute::kOff) - Saved(job, Recompute::kSelective), 8192 * 128);
}

TEST(Selective, OfUnfusedAttentionNeedsNoNote) {
  Job job = Llama8b();
  job.training.attention = AttentionKernel::kUnfused;
  EXPECT_EQ(SelectiveNote(MemorySoftware(job)), "");
}

TEST(Selective, ModulesGiveUpTheirTensors) {
  Job job = Llama8b();
  job.training.options.recompute_modules = {"mlp"};
  // Norm 2 output 8192, gate and up 57344, product 28672.
  EXPECT_EQ(Saved(job, Recompute::kOff) - Saved(job, Recompute::kSelective),
            std::int64_t{8192} * (8192 + 57344 + 28672));
  EXPECT_EQ(SelectiveNote(MemorySoftware(job)), "");
}

TEST(Selective, ExpertModulesLeaveDenseLayersAlone) {
  Job job = Llama8b();
  job.training.options.recompute_modules = {"moe_act", "moe"};
  EXPECT_EQ(Saved(job, Recompute::kOff), Saved(job, Recompute::kSelective));
}

TEST(SelectiveKeeps, NamesOperatorsOfAPerOperatorPolicyInTheirOrder) {
  Job job = Llama8b();
  job.training.framework = Framework::kHyperParallel;
  const KindTable kinds(job.model);
  EXPECT_THAT(SelectiveKeeps(MemorySoftware(job), kinds.entries[0]),
              ElementsAre("matmul: query", "matmul: value", "core attention", "matmul: gate",
                          "matmul: down"));
  EXPECT_EQ(SelectiveNote(MemorySoftware(job)), "");
}

TEST(SelectiveSets, AreThoseOfAPolicyThatKeepsAttentionAndEverySecondProduct) {
  Job job = Llama8b();
  job.training.framework = Framework::kTorch;
  const KindTable kinds(job.model);
  const OperatorSets sets = SelectiveSets(MemorySoftware(job), kinds.entries[0]);
  EXPECT_THAT(sets.save, ElementsAre("attention", "every second matmul"));
  EXPECT_EQ(sets.obstacle, "");
}

TEST(SelectiveSets, SayWhatNoNameOfAnOperatorSays) {
  Job job = Llama8b();
  const auto obstacle = [&job] {
    const KindTable kinds(job.model);
    const OperatorSets sets = SelectiveSets(MemorySoftware(job), kinds.entries[0]);
    EXPECT_THAT(sets.save, ::testing::IsEmpty());
    return sets.obstacle;
  };
  EXPECT_THAT(obstacle(), HasSubstr("modules"));  // Megatron-LM's
  job.training.framework = Framework::kTorch;
  job.training.options.recompute_modules = {"mlp"};
  EXPECT_THAT(obstacle(), HasSubstr("modules"));
  job.training.options.recompute_modules.clear();
  job.training.attention = AttentionKernel::kUnfused;
  EXPECT_THAT(obstacle(), HasSubstr("not fused"));
  job.training.attention = AttentionKernel::kFlash;
  job.model.stack.kinds[0].feed_forward.experts = Experts{};
  EXPECT_THAT(obstacle(), HasSubstr("experts"));
}

}  // namespace
}  // namespace restow::plan
