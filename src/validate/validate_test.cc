// Rows to jobs, conventions to seconds, and the figures over them.
#include "restow/validate/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "restow/io/measured_runs.h"
#include "validate/figures.h"
#include "validate/job_text.h"
#include "validate/measurement.h"
#include "validate/row.h"
#include "validate/rules.h"
#include "validate/run_shape.h"
#include "validate/score.h"
#include "validate/sweeps.h"

namespace restow::validate {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A dense run on eight devices; `changes` are column=value.
MeasuredRun RowOf(std::initializer_list<std::pair<const char*, const char*>> changes = {}) {
  MeasuredRun run;
  run.id = "test-001";
  run.fields = {{"id", "test-001"},
                {"hardware", "H100-SXM 80GB"},
                {"n_gpus", "8"},
                {"model_name", "toy"},
                {"layers", "8"},
                {"hidden", "1024"},
                {"ffn_hidden", "4096"},
                {"heads", "8"},
                {"kv_heads", "8"},
                {"head_dim", "128"},
                {"vocab", "1000"},
                {"gated_mlp", "0"},
                {"seq_len", "2048"},
                {"global_batch", "32"},
                {"micro_batch", "1"},
                {"dp", "4"},
                {"tp", "2"},
                {"sp", "1"},
                {"pp", "1"},
                {"ep", "1"},
                {"precision", "bf16"},
                {"zero_stage_or_fsdp", "zero1"},
                {"recompute", "off"},
                {"framework", "megatron"},
                {"release", "megatron-lm 2024"},
                {"confidence", "3"}};
  for (const auto& [column, value] : changes) run.fields[column] = value;
  return run;
}

TEST(RowToJob, IsReadLikeAUsersFile) {
  const RunJob made = MakeRunJob(RowOf(), nullptr);
  EXPECT_EQ(made.job.model.stack.layers(), 8);
  EXPECT_FALSE(made.job.model.stack.kinds[0].feed_forward.gated);
  EXPECT_EQ(made.job.cluster.devices, 8);
  EXPECT_EQ(made.one.layout.tp, 2);
  EXPECT_TRUE(made.one.layout.sp);
  EXPECT_EQ(made.one.layout.dp, 4);
  EXPECT_EQ(made.one.layout.zero, 1);
  EXPECT_EQ(made.one.layout.micro_batches, 8);  // 32 / (4·1)
  EXPECT_TRUE(made.text.assumed.empty());
}

TEST(RowToJob, TakesSwitchesAndSaysWhatItAssumes) {
  MeasuredRun run = RowOf({{"vocab", ""}, {"recompute", ""}});
  run.switches = {{"attention", "unfused"}, {"norm", "layernorm"}, {"linear_bias", "1"},
                  {"dropout", "1"},         {"te", "none"},        {"qk_norm", "1"}};
  const RunJob made = MakeRunJob(run, nullptr);
  EXPECT_EQ(made.job.training.attention, AttentionKernel::kUnfused);
  EXPECT_TRUE(made.job.model.stack.kinds[0].norm_bias);
  EXPECT_TRUE(made.job.model.stack.kinds[0].attention.qk_norm);
  EXPECT_TRUE(made.job.model.stack.kinds[0].feed_forward.bias);
  EXPECT_EQ(made.job.training.options.te, "none");
  EXPECT_EQ(made.job.training.options.dropout, 0.1);
  ASSERT_EQ(made.text.assumed.size(), 2u);
  EXPECT_THAT(made.text.assumed[0], HasSubstr("vocabulary 50257"));
  EXPECT_THAT(made.text.assumed[1], HasSubstr("recompute off"));
}

TEST(RowToJob, MixesKindsOfLayersWhereEveryOtherDiffers) {
  MeasuredRun run = RowOf({{"n_experts", "4"},
                           {"topk", "2"},
                           {"moe_ffn", "512"},
                           {"tp", "1"},
                           {"dp", "8"},
                           {"ep", "4"}});
  run.switches = {{"moe_every", "2"}};
  const RunJob made = MakeRunJob(run, nullptr);
  int sparse = 0;
  for (const int kind : made.job.model.stack.order) {
    sparse +=
        made.job.model.stack.kinds[static_cast<std::size_t>(kind)].feed_forward.experts ? 1 : 0;
  }
  EXPECT_EQ(sparse, 4);
  EXPECT_EQ(made.one.layout.ep, 4);
}

TEST(RowToJob, BlockRecomputeIsOfTheFirstLayersOfEveryChunk) {
  const RunJob made = MakeRunJob(
      RowOf({{"recompute", "block 1 layers per stage"}, {"pp", "2"}, {"dp", "2"}}), nullptr);
  std::vector<int> full;
  for (int layer = 0; layer < 8; ++layer) {
    if (made.one.recompute.at(layer) == Recompute::kFull) full.push_back(layer);
  }
  EXPECT_EQ(full, (std::vector<int>{0, 4}));
}

TEST(RowToJob, SlowerNetworksReplaceThePresets) {
  MeasuredRun run = RowOf({{"n_gpus", "64"}, {"dp", "32"}, {"global_batch", "64"}});
  run.switches = {{"scale_out_gbyte_per_s", "6.25"}};
  const RunJob made = MakeRunJob(run, nullptr);
  ASSERT_EQ(made.job.cluster.levels.size(), 2u);
  EXPECT_DOUBLE_EQ(made.job.cluster.levels[0].bandwidth.value(), 450e9);
  EXPECT_DOUBLE_EQ(made.job.cluster.levels[1].bandwidth.value(), 6.25e9);
}

TEST(RowToJob, LayersThatDivideOnlyWithEmbeddingAndLossAreSplitSo) {
  const std::string text =
      WriteJobText(RowOf({{"layers", "10"}, {"pp", "4"}, {"tp", "1"}, {"dp", "2"}})).yaml;
  EXPECT_THAT(text, HasSubstr("embedding_and_loss_count_as_layers: true"));
  EXPECT_THAT(WriteJobText(RowOf()).yaml, Not(HasSubstr("embedding_and_loss")));
}

TEST(Conventions, EveryFigureBecomesSecondsOfAStep) {
  EXPECT_DOUBLE_EQ(*MeasuredSeconds(RowOf({{"measured_iter_time_s", "1.5"}})), 1.5);
  // 32·2048 tokens over 8 devices at 1,024 tokens/s each: 8 s.
  EXPECT_DOUBLE_EQ(*MeasuredSeconds(RowOf({{"measured_tokens_per_s_per_gpu", "1024"}})), 8.0);
  // Weights a token visits: 8·(1024·128·(2·8+2·8) + 2·1024·4096) + 1000·1024 = 101,687,296.
  // Attention, causal half: 12·8·8·128·2048/2 = 100,663,296 per token.
  // (6·101,687,296 + 100,663,296)·65,536 tokens / 8 devices / 100 TFLOP/s = 0.0582275 s.
  MeasuredRun flops = RowOf({{"measured_tflops_per_gpu", "100"}});
  EXPECT_NEAR(*MeasuredSeconds(flops), (6 * 101687296.0 + 100663296.0) * 65536 / 8 / 1e14, 1e-12);
  // Full attention counts twice as much of it.
  flops.switches["flops"] = "full-attention";
  EXPECT_NEAR(*MeasuredSeconds(flops), (6 * 101687296.0 + 201326592.0) * 65536 / 8 / 1e14, 1e-12);
  EXPECT_FALSE(MeasuredSeconds(RowOf()).has_value());
}

TEST(Conventions, TheInstrumentIsWhatTheMetricNamesFirst) {
  const auto of = [](const char* metric) { return InstrumentOf(RowOf({{"mem_metric", metric}})); };
  EXPECT_EQ(of("torch max allocated, max over ranks (reserved max 70 GiB)"),
            MemoryInstrument::kAllocated);
  EXPECT_EQ(of("torchtitan max reserved memory, max over GPUs"), MemoryInstrument::kReserved);
  EXPECT_EQ(of("nvidia-smi, max of first/last node"), MemoryInstrument::kProcess);
  EXPECT_EQ(of("torch peak allocated, peak reserved 3 GiB"), MemoryInstrument::kAllocated);
  EXPECT_TRUE(MeasuresLastStage(RowOf({{"mem_metric", "allocated on LAST rank only"}})));
}

TEST(Conventions, RanksAreReadInTheirUnit) {
  EXPECT_EQ(MeasuredRanks(RowOf({{"mem_metric", "x; per-rank alloc GiB [2.5, 1]"}})),
            (std::vector<double>{2.5, 1}));
  EXPECT_EQ(MeasuredRanks(RowOf({{"mem_metric", "x; per-rank MiB [1024, 512]"}})),
            (std::vector<double>{1, 0.5}));
}

TEST(UnscorableRules, FollowFromColumns) {
  const auto why = [](std::initializer_list<std::pair<const char*, const char*>> changes,
                      RunQuantity quantity) { return WhyUnscorable(RowOf(changes), quantity); };
  const RunQuantity time = RunQuantity::kTime, memory = RunQuantity::kMemory;
  EXPECT_EQ(why({{"measured_iter_time_s", "1"}}, time), "");
  EXPECT_EQ(why({}, time), "no time measured");
  EXPECT_EQ(why({}, memory), "");
  EXPECT_THAT(why({{"model_name", "Nemotron-3 hybrid"}}, memory), HasSubstr("layer kind"));
  EXPECT_EQ(why({{"model_name", "nemotron4-340b"}}, memory), "");
  EXPECT_EQ(why({{"hidden", ""}}, memory), "architecture missing");
  EXPECT_EQ(why({{"seq_len", ""}}, memory), "sequence length missing");
  EXPECT_EQ(why({{"micro_batch", ""}}, memory), "micro-batch missing");
  EXPECT_EQ(why({{"global_batch", "2"}}, memory), "batch below dp x micro-batch");
  EXPECT_EQ(why({{"schedule", "DualPipe"}}, memory), "schedule not modelled");
  EXPECT_THAT(why({{"precision", "fp8"}}, memory), HasSubstr("fp8 recipe"));
  EXPECT_EQ(why({{"measured_iter_time_s", "1"}, {"precision", "fp8"}}, time), "");
  EXPECT_THAT(why({{"hardware", "abacus"}}, memory), HasSubstr("device not named"));
}

TEST(UnscorableRules, OneLongSequenceIsAPassWhereTheMicroBatchIsUnstated) {
  EXPECT_EQ(MicroBatch(RowOf({{"micro_batch", ""}, {"seq_len", "32768"}})), 1);  // 2^15·2^10 = 2^25
  EXPECT_EQ(MicroBatch(RowOf({{"micro_batch", ""}, {"seq_len", "16384"}})), 0);
  EXPECT_EQ(MicroBatch(RowOf({{"micro_batch", ""}, {"seq_len", "32768"}, {"pp", "2"}})), 0);
}

TEST(UnscorableRules, EqualRunsThatDisagreeContradictOneAnother) {
  const auto with = [](const char* id, const char* gib, const char* hidden = "1024") {
    MeasuredRun run = RowOf({{"measured_peak_mem_gib", gib}, {"hidden", hidden}});
    run.id = id;
    return run;
  };
  EXPECT_EQ(Contradictions({with("t-1", "10"), with("t-2", "12")}),
            (std::set<std::string>{"t-1", "t-2"}));
  EXPECT_EQ(Contradictions({with("t-1", "10"), with("t-2", "10.5"), with("t-3", "12")}),
            (std::set<std::string>{"t-3"}));
  EXPECT_TRUE(Contradictions({with("t-1", "10"), with("t-2", "12", "2048")}).empty());
}

TEST(Figures, MedianQuantileAndTauByHand) {
  EXPECT_DOUBLE_EQ(Median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(Median({4, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(Quantile({1, 2, 3, 4}, 0.95), 4);
  EXPECT_DOUBLE_EQ(Quantile({4, 3, 2, 1}, 0.5), 2);
  // Pairs by measured order: (1,2) and (1,3) agree, (2,3) does not: (2 − 1)/3.
  EXPECT_DOUBLE_EQ(KendallTau({1, 3, 2}, {10, 20, 30}, 0.02), 1.0 / 3);
  // 100 and 101 are within 2 %: one pair of three is left out.
  EXPECT_DOUBLE_EQ(KendallTau({2, 1, 3}, {100, 101, 200}, 0.02), 1.0);
}

TEST(Verdicts, ARunThatCannotFitIsCalledSo) {
  MeasuredRun run = RowOf({{"hidden", "16384"},
                           {"ffn_hidden", "65536"},
                           {"heads", "128"},
                           {"kv_heads", "128"},
                           {"layers", "32"},
                           {"oom", "1"}});
  const Validation v = ValidateRuns({run}, {});
  EXPECT_EQ(v.oom_known, 1);
  EXPECT_EQ(v.oom_called_fitting, 0);
  run.fields["oom"] = "0";
  EXPECT_EQ(ValidateRuns({run}, {}).fits_known, 0);  // its time is not scored: nothing is known
}

}  // namespace
}  // namespace restow::validate
