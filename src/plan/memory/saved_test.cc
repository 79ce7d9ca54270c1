#include "plan/memory/saved.h"

#include <gtest/gtest.h>

#include "plan/memory/test_support.h"

namespace restow::plan {
namespace {

using testing::DenseKind;
using testing::JobOf;
using testing::Llama8b;

LayerBytes Price(const Job& job, const MicroShape& shape, Recompute mode = Recompute::kOff) {
  const MemorySoftware software(job);
  const KindTable kinds(job.model);
  return PriceLayerBytes(software, kinds.entries.back(), shape, mode);
}

std::int64_t Saved(const Job& job, const MicroShape& shape, Recompute mode = Recompute::kOff) {
  return Price(job, shape, mode).saved.value();
}

MicroShape Tp(int tp, bool sp) {
  MicroShape shape;
  shape.tp = tp;
  shape.sp = sp;
  return shape;
}

// GPT-3 as in Korthikanti et al., arXiv:2205.05198, table 3: s 2048, b 1, h 12288, a 96, 4h wide.
Job Gpt3() {
  LayerKind kind = DenseKind(12288, 4 * 12288, 96, 96, 128);
  kind.feed_forward.gated = false;
  kind.norm_bias = true;
  Job job = JobOf(kind, 96, 51200, 2048);
  job.training.attention = AttentionKernel::kUnfused;
  job.training.options.dropout = 0.1;
  return job;
}

constexpr std::int64_t kSbh = std::int64_t{2048} * 12288;

TEST(SavedTensors, OfGpt3AreKorthikantisLayer) {
  // Equation 1: sbh·(34 + 5as/h), with 5as/h = 5·96·2048/12288 = 80.
  EXPECT_EQ(Saved(Gpt3(), Tp(1, false)), kSbh * (34 + 80));
}

TEST(SavedTensors, OfGpt3UnderTensorParallelismAreKorthikantisLayer) {
  // Equation 2: sbh·(10 + 24/t + 5as/(ht)), with t = 8.
  EXPECT_EQ(Saved(Gpt3(), Tp(8, false)), kSbh * (10 + 24 / 8 + 80 / 8));
}

TEST(SavedTensors, OfGpt3UnderSequenceParallelismAreKorthikantisLayer) {
  // Equation 4: sbh/t·(34 + 5as/h).
  EXPECT_EQ(Saved(Gpt3(), Tp(8, true)), kSbh * (34 + 80) / 8);
}

TEST(SavedTensors, UnderSelectiveGiveUpScoresAndPinTheFusedProduct) {
  // Korthikanti's 34sbh, and query and key (4sbh) that Megatron-LM's view of the value pins.
  EXPECT_EQ(Saved(Gpt3(), Tp(8, true), Recompute::kSelective), kSbh * (34 + 4) / 8);
}

TEST(SavedTensors, UnderFullAreTheInput) {
  EXPECT_EQ(Saved(Gpt3(), Tp(8, true), Recompute::kFull), kSbh * 2 / 8);
  EXPECT_EQ(Saved(Llama8b(), Tp(1, false), Recompute::kFull), 8192 * 4096 * 2);
}

TEST(SavedTensors, OfLlama8bUnderFlashAttention) {
  // Bytes of one token: norms' inputs and outputs 4·2·4096 = 32768; query 2·32·128 = 8192; key and
  // value 2·2·8·128 = 4096; attention output 8192; statistics 4·32 = 128; gate and up 2·2·14336 =
  // 57344; their product 28672. Sum 139392.
  EXPECT_EQ(Saved(Llama8b(), Tp(1, false)), std::int64_t{8192} * 139392);
  // tp 8 with sp divides all of it.
  EXPECT_EQ(Saved(Llama8b(), Tp(8, true)), std::int64_t{8192} * 139392 / 8);
}

// DeepSeek-V3, arXiv:2412.19437, section 4.2: h 7168, 128 heads, ranks 1536 and 512, head 128 + 64,
// 256 experts of width 2048, 8 per token, one shared.
Job DeepSeekV3() {
  LayerKind kind = DenseKind(7168, 18432, 128, 128, 128);
  kind.attention.latent = LatentAttention{1536, 512, 128, 64, 128};
  Experts experts;
  experts.count = 256;
  experts.per_token = 8;
  experts.width = 2048;
  experts.shared_width = 2048;
  kind.feed_forward.experts = experts;
  return JobOf(kind, 58, 129280, 4096);
}

TEST(SavedTensors, OfADeepSeekV3Layer) {
  // Bytes of one token: norms 4·2·7168 = 57344; query latent 2·2·1536 = 6144; key-value latent
  // 2·(2·512 + 64) = 2176; query and key 2·2·128·192 = 98304; value 2·128·128 = 32768; output
  // 32768; statistics 4·128 = 512; router 16·256 = 4096; eight copies: input 2·8·7168 = 114688,
  // gate and up 2·8·4096 = 65536, activation 2·8·2048 = 32768; shared 2·3·2048 = 12288.
  constexpr std::int64_t kToken =
      57344 + 6144 + 2176 + 98304 + 32768 + 32768 + 512 + 4096 + 114688 + 65536 + 32768 + 12288;
  EXPECT_EQ(Saved(DeepSeekV3(), Tp(1, false)), 4096 * kToken);
}

TEST(ForwardWork, OfExpertsIsFourDispatchCopiesWide) {
  // 4·(2·8·7168) + 2·7168 bytes of one token (memory-model.md section 7).
  EXPECT_EQ(Price(DeepSeekV3(), Tp(1, false)).forward_work.value(),
            std::int64_t{4096} * (4 * 2 * 8 * 7168 + 2 * 7168));
}

TEST(BackwardWork, OfADenseLayerIsTheGradientOfItsGateAndUp) {
  // 2·4096 + 2·2·14336 bytes of one token; attention's (4·4096 + 8192 + 12288 + 4·4096) less the
  // 94208 that the other half has freed is smaller.
  EXPECT_EQ(Price(Llama8b(), Tp(1, false)).backward_work.value(),
            std::int64_t{8192} * (8192 + 57344));
}

TEST(BackwardWork, UnderFullHoldsTheWholeLayerOnce) {
  const LayerBytes off = Price(Llama8b(), Tp(1, false));
  const LayerBytes full = Price(Llama8b(), Tp(1, false), Recompute::kFull);
  EXPECT_EQ(full.saved + full.backward_work, off.saved + off.backward_work);
}

TEST(SavedTensors, AreListedWithTheirSum) {
  for (const Framework framework :
       {Framework::kMegatron, Framework::kTorchtitan, Framework::kTorch, Framework::kMindSpeed,
        Framework::kMindFormers, Framework::kHyperParallel}) {
    Job job = DeepSeekV3();
    job.training.framework = framework;
    const MemorySoftware software(job);
    const KindTable kinds(job.model);
    for (const Recompute mode : {Recompute::kOff, Recompute::kSelective, Recompute::kFull}) {
      Bytes sum;
      for (const NamedBytes& tensor : SavedTensors(software, kinds.entries[0], Tp(2, true), mode)) {
        EXPECT_GT(tensor.bytes.value(), 0) << tensor.name;
        sum += tensor.bytes;
      }
      EXPECT_EQ(sum, PriceLayerBytes(software, kinds.entries[0], Tp(2, true), mode).saved);
    }
  }
}

TEST(PriceLayerBytes, OffKeepsAtLeastWhatFullKeeps) {
  for (const Framework framework :
       {Framework::kMegatron, Framework::kTorchtitan, Framework::kTorch, Framework::kMindSpeed,
        Framework::kMindFormers, Framework::kHyperParallel}) {
    for (Job job : {Gpt3(), Llama8b(), DeepSeekV3()}) {
      job.training.framework = framework;
      const std::int64_t off = Saved(job, Tp(4, true));
      EXPECT_GT(off, Saved(job, Tp(4, true), Recompute::kFull));
      EXPECT_GT(Saved(job, Tp(4, true), Recompute::kSelective),
                Saved(job, Tp(4, true), Recompute::kFull));
    }
  }
}

TEST(PriceLayerBytes, ShardingNeverRaisesWhatALayerSaves) {
  for (const Job& job : {Gpt3(), Llama8b(), DeepSeekV3()}) {
    std::int64_t last = Saved(job, Tp(1, false));
    for (const int tp : {2, 4, 8}) {
      EXPECT_LT(Saved(job, Tp(tp, true)), last);
      EXPECT_LE(Saved(job, Tp(tp, true)), Saved(job, Tp(tp, false)));
      last = Saved(job, Tp(tp, true));
    }
    MicroShape cp;
    cp.cp = 4;
    EXPECT_LT(Saved(job, cp), Saved(job, Tp(1, false)));
  }
}

TEST(PriceLayerBytes, SequenceParallelismChangesBytes) {
  EXPECT_LT(Saved(Llama8b(), Tp(8, true)), Saved(Llama8b(), Tp(8, false)));
}

TEST(PriceLayerBytes, BytesFollowTheComputeDtype) {
  // All but the statistics (4·32 per token) doubles in fp32: elements are not bytes.
  Job job = Llama8b();
  job.training.precision.compute = DType::kFp32;
  EXPECT_EQ(Saved(job, Tp(1, false)), std::int64_t{8192} * ((139392 - 128) * 2 + 128));
}

TEST(PriceLayerBytes, BatchFirstFlashKeepsASecondOutputAboveOneSequence) {
  Job job = Llama8b();
  MicroShape one, two;
  two.micro_batch = 2;
  const std::int64_t plain_one = Saved(job, one), plain_two = Saved(job, two);
  job.training.options.flash_attention_bshd = true;
  EXPECT_EQ(Saved(job, one), plain_one);
  EXPECT_EQ(Saved(job, two), plain_two + std::int64_t{2} * 8192 * 8192);
}

TEST(PriceLayerBytes, AscendKeepsSixtyFourBytesOfStatistics) {
  Job job = Llama8b();
  const std::int64_t plain = Saved(job, Tp(1, false));
  job.training.framework = Framework::kMindSpeed;
  EXPECT_EQ(Saved(job, Tp(1, false)), plain + std::int64_t{8192} * 32 * 60);
}

TEST(PriceLayerBytes, WorstRoutingWidensOnlyTheExperts) {
  Job job = DeepSeekV3();
  const std::int64_t mean = Saved(job, Tp(1, false));
  job.training.options.moe_imbalance = 1.5;
  // Half more of the 114688 + 65536 + 32768 bytes of a token's eight copies.
  EXPECT_EQ(Saved(job, Tp(1, false)), mean + std::int64_t{4096} * (114688 + 65536 + 32768) / 2);
}

TEST(PriceLayerBytes, PaddedExpertsTakeTheirCapacity) {
  // 100 tokens · 8 copies over 256 experts: capacity 4, 1024 rows instead of 800.
  Job job = DeepSeekV3();
  job.training.sequence = 100;
  const std::int64_t dropless = Saved(job, Tp(1, false));
  job.training.options.moe_pad = true;
  EXPECT_EQ(Saved(job, Tp(1, false)) - dropless, 224 * (2 * 7168 + 2 * 4096 + 2 * 2048));
}

TEST(PriceLayerBytes, GatesAndFurtherNormsKeepTheirTensors) {
  Job job = Llama8b();
  const std::int64_t plain = Saved(job, Tp(1, false));
  job.model.stack.kinds[0].attention.output_gate = true;  // gate and gated output, 8192 each
  EXPECT_EQ(Saved(job, Tp(1, false)), plain + std::int64_t{8192} * 2 * 8192);
  job.model.stack.kinds[0].attention.output_gate = false;
  job.model.stack.kinds[0].norms = 4;  // inputs of the two norms behind the branches
  EXPECT_EQ(Saved(job, Tp(1, false)), plain + std::int64_t{8192} * 2 * 8192);
}

TEST(PriceLayerBytes, LoraKeepsOnlyInputsThatAnAdapterReads) {
  Job job = Llama8b();
  const std::int64_t plain = Saved(job, Tp(1, false));
  job.training.lora = Lora{16, {"q_proj", "v_proj"}};
  // Gone: norm 2 output (8192) and the product before down_proj (28672); new: 2·16 results twice.
  EXPECT_EQ(Saved(job, Tp(1, false)), plain + std::int64_t{8192} * (2 * 32 - 8192 - 28672));
}

Job WithTower() {
  Job job = Llama8b();
  Tower tower;
  tower.name = "visual";
  tower.patches = 1024;
  tower.stack.kinds = {DenseKind(1280, 5120, 16, 16, 80)};
  tower.stack.kinds[0].feed_forward.gated = false;
  tower.stack.order.assign(32, 0);
  tower.other_parameters = 1000;
  job.model.towers = {tower};
  return job;
}

TEST(PriceLayerBytes, ATowerSeesItsOwnTokensWhateverCpIs) {
  // Bytes of one token: norms 4·2·1280, query, key, value and output 4·2·1280, statistics 4·16,
  // first output and activation 2·2·5120.
  MicroShape shape;
  shape.micro_batch = 2;
  EXPECT_EQ(Saved(WithTower(), shape), std::int64_t{2} * 1024 * (10240 + 10240 + 64 + 20480));
  shape.cp = 4;
  EXPECT_EQ(Saved(WithTower(), shape), std::int64_t{2} * 1024 * (10240 + 10240 + 64 + 20480));
}

TEST(PriceLayerBytes, ATowerWhoseHeadsDoNotDivideIsReplicated) {
  Job job = WithTower();
  EXPECT_LT(Saved(job, Tp(4, true)), Saved(job, Tp(1, false)));
  job.model.towers[0].stack.kinds[0].attention.heads = 15;
  EXPECT_EQ(Saved(job, Tp(4, true)), Saved(job, Tp(1, false)));
}

TEST(PriceLayerBytes, AFrozenTowerSavesNothing) {
  Job job = WithTower();
  job.training.frozen = {"model.visual"};
  const LayerBytes bytes = Price(job, Tp(1, false));
  EXPECT_EQ(bytes.saved.value(), 0);
  EXPECT_EQ(bytes.backward_work.value(), 0);
  EXPECT_GT(bytes.forward_work.value(), 0);
}

TEST(PriceLayerBytes, ATowerWithoutATokenCountIsRefused) {
  Job job = WithTower();
  job.model.towers[0].patches = 0;
  EXPECT_THROW(Price(job, Tp(1, false)), Error);
  job.training.visual_tokens = 256;
  EXPECT_GT(Saved(job, Tp(1, false)), 0);
}

}  // namespace
}  // namespace restow::plan
