#include <gtest/gtest.h>

#include "plan/time/test_jobs.h"

namespace restow::plan {
namespace {

using testing::SmallJob;

TEST(ModelFlops, OfLlama2MatchSixPerWeightAndHalfTheAttention) {
  // Products: 32·(4·4096² + 3·4096·11008) + 4096·32000 = 6,607,077,376 weights.
  // Attention: 6·L·h·s = 6·32·4096·4096 FLOP per token (causal half of 12·L·h·s).
  // 64 sequences of 4096 on 8 devices.
  const double weights = 32.0 * (4 * 4096.0 * 4096 + 3 * 4096.0 * 11008) + 4096.0 * 32000;
  EXPECT_EQ(weights, 6607077376.0);
  const double token = 6 * weights + 6.0 * 32 * 4096 * 4096;
  EXPECT_DOUBLE_EQ(ModelFlops(SmallJob()).value(), token * 4096 * 64 / 8);
}

TEST(ModelFlops, OfDeepSeekV3AreAQuarterOfATeraflopPerToken) {
  // DeepSeek-V3 (arXiv:2412.19437): 61 layers of 7168, three dense of 18432, 256 experts of 2048,
  // 8 per token and one shared. NVIDIA's tables count 0.250 TFLOP per token without multi-token
  // prediction and 0.260 with, at 4096 tokens (time-model.md section 1).
  Job job = SmallJob("h100", 8);
  LayerKind dense = testing::DenseKind(7168, 18432, 128, 128, 192);
  dense.attention.latent = LatentAttention{1536, 512, 128, 64, 128};
  LayerKind sparse = dense;
  sparse.feed_forward.experts = Experts{256, 8, 2048, 2048};
  job.model = testing::ModelOf(dense, 61, 129280);
  job.model.stack.kinds.push_back(sparse);
  std::fill(job.model.stack.order.begin() + 3, job.model.stack.order.end(), 1);
  const double tokens = 4096.0 * 64 / 8;
  EXPECT_NEAR(ModelFlops(job).value() / tokens / 1e12, 0.250, 0.003);
  job.model.mtp_layers = 1;
  job.model.mtp_kind = 1;
  EXPECT_NEAR(ModelFlops(job).value() / tokens / 1e12, 0.260, 0.003);
}

TEST(ModelFlops, CountOnlyTheExpertsATokenVisits) {
  Job job = SmallJob();
  job.model.stack.kinds[0].feed_forward.experts = Experts{8, 2, 11008, 0};
  const double eight = ModelFlops(job).value();
  job.model.stack.kinds[0].feed_forward.experts->count = 16;
  // Only the router grows: 6 · 32 layers · 4096 · 8 more scores per token.
  EXPECT_NEAR(ModelFlops(job).value() - eight, 6.0 * 32 * 4096 * 8 * 4096 * 8, 1e6);
}

TEST(ModelFlops, RespectWindows) {
  Job job = SmallJob();
  const double full = ModelFlops(job).value();
  job.model.stack.kinds[0].attention.window = 1024;
  // The mean span falls from 2048 to 1024·(1 - 1024/8192) = 896.
  const double attention = 6.0 * 32 * 4096 * 4096 * 4096 * 8;
  EXPECT_NEAR(full - ModelFlops(job).value(), attention * (1 - 896.0 / 2048), 1e9);
}

TEST(ModelFlops, OfFrozenWeightsAreTwoThirds) {
  Job job = SmallJob();
  job.training.sequence = 16;  // attention is next to nothing
  job.training.lora = Lora{8, {}};
  const double lora = ModelFlops(job).value();
  job.training.lora.reset();
  EXPECT_NEAR(lora / ModelFlops(job).value(), 2.0 / 3, 1e-3);
}

TEST(ModelFlops, OfATowerGoByItsOwnTokens) {
  Job job = SmallJob();
  const double without = ModelFlops(job).value();
  Tower tower;
  tower.name = "visual";
  tower.stack.kinds = {testing::DenseKind(1024, 4096, 16, 16, 64, false)};
  tower.stack.kinds[0].attention.causal = false;
  tower.stack.order.assign(10, 0);
  tower.patches = 256;
  job.model.towers = {tower};
  // 256 tokens, 10 layers: 6·(4·1024² + 2·1024·4096) + 12·1024·256 (all of them are seen) each,
  // 8 sequences a device.
  const double token = 10 * (6 * (4 * 1024.0 * 1024 + 2 * 1024.0 * 4096) + 12 * 1024.0 * 256);
  EXPECT_NEAR(ModelFlops(job).value() - without, token * 256 * 8, 1e7);
}

}  // namespace
}  // namespace restow::plan
