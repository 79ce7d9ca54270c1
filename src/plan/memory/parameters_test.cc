#include <gtest/gtest.h>

#include "plan/frozen.h"
#include "plan/memory/test_support.h"

namespace restow::plan {
namespace {

using testing::ChunksOf;
using testing::DenseKind;
using testing::JobOf;
using testing::Llama8b;

StageParameters Stage(const Job& job, int pp, int stage, int tp = 1, int ep = 1, int etp = 1) {
  const KindTable kinds(job.model);
  const std::vector<int> counts(static_cast<std::size_t>(pp), job.model.stack.layers() / pp);
  const auto off = [](int, int) { return Recompute::kOff; };
  return PriceStageParameters(MemorySoftware(job), kinds,
                              ChunksOf(job, counts, pp, off)[static_cast<std::size_t>(stage)], tp,
                              ep, etp, pp);
}

// One layer of Llama-3-8B: attention (4096 + 2·1024)·4096 + 4096·4096 = 41943040, feed-forward
// 3·4096·14336 = 176160768, norms 2·4096.
constexpr std::int64_t kLayer = 41943040 + 176160768 + 8192;
constexpr std::int64_t kTable = std::int64_t{128256} * 4096;

TEST(PriceStageParameters, OfOneStageAreTheModels) {
  // 8030261248, as published for Llama-3-8B.
  const StageParameters p = Stage(Llama8b(), 1, 0);
  EXPECT_EQ(p.total.dense, 32 * kLayer + 2 * kTable + 4096);
  EXPECT_EQ(p.total.dense, 8030261248);
  EXPECT_EQ(p.total.dense, CountParameters(Llama8b().model).total);
  EXPECT_EQ(p.largest_layer, kLayer);
  EXPECT_EQ(p.embedding, kTable);
  EXPECT_EQ(p.head, kTable);
}

TEST(PriceStageParameters, DiffersBetweenFirstMiddleAndLastStage) {
  EXPECT_EQ(Stage(Llama8b(), 4, 0).total.dense, 8 * kLayer + kTable);
  EXPECT_EQ(Stage(Llama8b(), 4, 1).total.dense, 8 * kLayer);
  EXPECT_EQ(Stage(Llama8b(), 4, 3).total.dense, 8 * kLayer + kTable + 4096);
}

TEST(PriceStageParameters, TiedTableStandsOnBothEndsOfAPipeline) {
  Job job = Llama8b();
  job.model.tied = true;
  EXPECT_EQ(Stage(job, 1, 0).total.dense, 32 * kLayer + kTable + 4096);
  EXPECT_EQ(Stage(job, 2, 0).total.dense, 16 * kLayer + kTable);
  EXPECT_EQ(Stage(job, 2, 1).total.dense, 16 * kLayer + kTable + 4096);
  EXPECT_EQ(Stage(job, 2, 1).head, 0);
}

TEST(PriceStageParameters, TensorParallelismHalvesAllButNorms) {
  EXPECT_EQ(Stage(Llama8b(), 1, 0, 2).total.dense,
            (32 * (kLayer - 8192) + 2 * kTable) / 2 + 32 * 8192 + 4096);
}

TEST(PriceStageParameters, PadsTheVocabularyUnderMegatronOnly) {
  Job job = JobOf(DenseKind(1024, 4096, 16, 16, 64), 2, 50257, 1024);
  // To a multiple of 128·8 = 1024: 51200, so 6400 rows on each of eight ranks.
  EXPECT_EQ(Stage(job, 1, 0, 8).embedding, 6400 * 1024);
  job.training.options.vocabulary_unit = 3232;  // 25856 · 2 = 51712
  EXPECT_EQ(Stage(job, 1, 0, 8).embedding, 51712 / 8 * 1024);
  job.training.framework = Framework::kTorch;
  EXPECT_EQ(Stage(job, 1, 0, 8).embedding, 6283 * 1024);  // ceil(50257 / 8)
}

// DeepSeek-V3's expert layer (arXiv:2412.19437, section 4.2).
Job DeepSeek() {
  LayerKind kind = DenseKind(7168, 18432, 128, 128, 128);
  kind.attention.latent = LatentAttention{1536, 512, 128, 64, 128};
  Experts experts;
  experts.count = 256;
  experts.per_token = 8;
  experts.width = 2048;
  experts.shared_width = 2048;
  experts.router_bias = true;
  kind.feed_forward.experts = experts;
  return JobOf(kind, 4, 129280, 4096);
}

TEST(LayerParametersOnRank, OfADeepSeekV3LayerKeepExpertsApart) {
  // Attention: 7168·1536 + 1536 + 1536·24576 + 7168·576 + 512 + 512·32768 + 16384·7168 =
  // 187107328. Router 256·7168 + 256, shared expert 3·7168·2048 = 44040192, norms 2·7168.
  // Routed experts 256·44040192, divided by ep.
  const Job job = DeepSeek();
  const KindTable kinds(job.model);
  const MemorySoftware software(job);
  const RankParameters n = LayerParametersOnRank(software, kinds.entries[0], 0, 1, 64, 1);
  EXPECT_EQ(n.dense, 187107328 + 256 * 7168 + 256 + 44040192 + 2 * 7168);
  EXPECT_EQ(n.expert, 4 * std::int64_t{44040192});
  EXPECT_EQ(n.frozen_dense, 0);
}

TEST(LayerParametersOnRank, LatentDownProjectionsAreWholeOnEveryRank) {
  const Job job = DeepSeek();
  const KindTable kinds(job.model);
  const MemorySoftware software(job);
  const auto dense = [&](int tp) {
    return LayerParametersOnRank(software, kinds.entries[0], 0, tp, 1, 1).dense;
  };
  // What tp divides: up-projections, output projection and the shared expert.
  const std::int64_t divided =
      std::int64_t{1536} * 24576 + 512 * 32768 + std::int64_t{16384} * 7168 + 44040192;
  EXPECT_EQ(dense(1) - dense(4), divided - divided / 4);
}

TEST(PriceStageParameters, MultiTokenPredictionStandsOnTheLastStage) {
  Job job = DeepSeek();
  const StageParameters plain = Stage(job, 2, 1);
  job.model.mtp_layers = 1;
  const StageParameters with = Stage(job, 2, 1);
  const KindTable kinds(job.model);
  const RankParameters layer =
      LayerParametersOnRank(MemorySoftware(job), kinds.entries[0], 0, 1, 1, 1);
  // A layer, the projection of twice the width and its norms, and the embedding.
  EXPECT_EQ(with.total.dense - plain.total.dense,
            layer.dense + 2 * std::int64_t{7168} * 7168 + 3 * 7168 + std::int64_t{129280} * 7168);
  EXPECT_EQ(with.total.expert - plain.total.expert, layer.expert);
  EXPECT_EQ(Stage(job, 2, 0).total.dense, Stage(DeepSeek(), 2, 0).total.dense);
}

TEST(PriceStageParameters, ShapesCountOnce) {
  // Fused query-key-value 6144x4096, output 4096x4096, gate and up 28672x4096, down 4096x14336.
  const StageParameters p = Stage(Llama8b(), 1, 0);
  EXPECT_EQ(p.shapes.size(), 4u);
  EXPECT_EQ(p.placeholders, std::int64_t{4096} * (6144 + 4096 + 28672 + 14336));
}

TEST(PriceStageParameters, FrozenPartsHaveNoTrainableParameters) {
  Job job = Llama8b();
  job.training.frozen = {"model.layers.*.mlp", "lm_head"};
  const StageParameters p = Stage(job, 1, 0);
  EXPECT_EQ(p.total.frozen_dense, 32 * std::int64_t{176160768} + kTable);
  EXPECT_EQ(p.total.dense + p.total.frozen_dense, 32 * kLayer + 2 * kTable + 4096);
}

TEST(PriceStageParameters, FrozenLayersAreFoundOnTheirStage) {
  Job job = Llama8b();
  job.training.frozen = {"layers.0", "layers.31"};
  EXPECT_EQ(Stage(job, 4, 0).total.frozen_dense, kLayer);
  EXPECT_EQ(Stage(job, 4, 1).total.frozen_dense, 0);
  EXPECT_EQ(Stage(job, 4, 3).total.frozen_dense, kLayer);
}

TEST(PriceStageParameters, LoraTrainsOnlyItsAdapters) {
  // Rank 16 on q_proj and v_proj: 16·(4096 + 4096) + 16·(4096 + 1024) = 212992 a layer.
  Job job = Llama8b();
  job.training.lora = Lora{16, {"q_proj", "v_proj"}};
  const StageParameters p = Stage(job, 1, 0);
  EXPECT_EQ(p.total.dense, 32 * 212992);
  EXPECT_EQ(p.total.frozen_dense, 8030261248);
}

TEST(PriceStageParameters, GlobsAndTargetsThatNameNothingAreRefused) {
  Job job = Llama8b();
  job.training.frozen = {"*"};
  EXPECT_THROW(CheckFrozen(job), Error) << "nothing would be trained";
  job.training.frozen = {"encoder.*"};
  EXPECT_THROW(Stage(job, 1, 0), Error);
  job.training.frozen = {};
  job.training.lora = Lora{16, {"query"}};
  EXPECT_THROW(Stage(job, 1, 0), Error);
}

TEST(PriceStageParameters, TowersAndProjectorStandOnTheFirstStage) {
  Job job = Llama8b();
  Tower tower;
  tower.name = "visual";
  tower.patches = 256;
  tower.stack.kinds = {DenseKind(1024, 4096, 16, 16, 64)};
  tower.stack.order = {0, 0};
  tower.other_parameters = 5000;
  job.model.towers = {tower};
  job.model.projector_parameters = 7000;
  const KindTable kinds(job.model);
  Chunk chunk;
  chunk.runs = {{1, Recompute::kOff, 2}, {0, Recompute::kOff, 32}};
  chunk.embedding = chunk.head = true;
  const auto price = [&] {
    return PriceStageParameters(MemorySoftware(job), kinds, {chunk}, 1, 1, 1, 1).total;
  };
  EXPECT_EQ(price().dense, CountParameters(job.model).total);
  job.training.frozen = {"visual.**"};
  EXPECT_EQ(price().frozen_dense, CountParameters(tower));
}

}  // namespace
}  // namespace restow::plan
