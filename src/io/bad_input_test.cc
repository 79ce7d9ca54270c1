// Bad input: a message naming file, line, field, value and what is allowed. One test for every line
// that concerns reading (docs/planner.md, "Bad input").
#include <gmock/gmock.h>

#include <cstdio>

#include "io/test_jobs.h"

namespace restow {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string TrainingFault(const std::string& fields) {
  return BadInput(JobText("", "training: {" + fields + "}\n"));
}
std::string ClusterFault(const std::string& fields) {
  return BadInput(JobText("", kTrainingText, "cluster: {" + fields + "}\n"));
}

TEST(BadInput, UnknownKeysAreRefusedWithTheNearestOne) {
  EXPECT_EQ(BadInput(JobText("serach: {tp: 2}\n")),
            "job:4:1: unknown key 'serach'; did you mean 'search'? allowed: name, model, cluster, "
            "training, current, search, granularity and swap");
  EXPECT_THAT(TrainingFault("sequence: 128, global_batch: 32, sequnce: 1"),
              StartsWith("job:3:45: unknown key 'sequnce' in training; did you mean 'sequence'?"));
  EXPECT_THAT(ClusterFault("device: h100-sxm, devices: 16, per_nodes: 8"),
              HasSubstr("unknown key 'per_nodes' in cluster; did you mean 'per_node'?"));
  std::string model = JobText();
  model.replace(model.find("vocab"), 5, "warps: 1, vocab");
  EXPECT_THAT(BadInput(model), StartsWith("job:1:65: unknown key 'model.warps'"));
  EXPECT_THAT(BadInput(JobText("current: {tp: 2, qq: 1}\n")),
              HasSubstr("job:4:18: unknown key 'qq' in current; "));
  EXPECT_THAT(TrainingFault("sequence: 128, global_batch: 32, options: {wgrad_fuson: 1}"),
              HasSubstr("did you mean 'wgrad_fusion'?"));
  EXPECT_THAT(ClusterFault("device: h100-sxm, devices: 16, levels: [{name: a, size: 16, "
                           "bandwidth: 1 GB/s, lag: 1 us}]"),
              HasSubstr("unknown key 'lag' in cluster.levels[0]"));
}

TEST(BadInput, WrongTypesAreNamed) {
  EXPECT_EQ(TrainingFault("sequence: abc, global_batch: 32"),
            "job:3:22: training.sequence is abc; a whole number is expected");
  EXPECT_THAT(TrainingFault("sequence: 128.5, global_batch: 32"),
              HasSubstr("training.sequence is 128.5; a whole number is expected"));
  EXPECT_THAT(TrainingFault("sequence: \"128\", global_batch: 32"),
              HasSubstr("training.sequence is \"128\"; a whole number is expected"));
  EXPECT_THAT(TrainingFault("sequence: [128], global_batch: 32"),
              HasSubstr("training.sequence is [128]; a whole number is expected"));
  EXPECT_THAT(BadInput("model: 3\n" + std::string(kClusterText) + kTrainingText),
              HasSubstr("job:1:8: model is 3; allowed: {hf: PATH}, {preset: NAME}"));
  EXPECT_THAT(BadInput(JobText("search: [tp]\n")),
              HasSubstr("job:4:9: search is [tp]; a map (keys with values) is expected"));
  EXPECT_THAT(BadInput("[1, 2]\n"), HasSubstr("job:1:1: the document is [1, 2]; a map"));
  EXPECT_THAT(
      TrainingFault("sequence: 128, global_batch: 32, optimizer: adamm"),
      HasSubstr("training.optimizer is adamm; allowed: adamw, adam, sgd, muon or adafactor; "
                "did you mean 'adam"));
  EXPECT_THAT(TrainingFault("sequence: 128, global_batch: 32, framework: 7"),
              HasSubstr("training.framework is 7; allowed: megatron, torchtitan"));
  EXPECT_THAT(TrainingFault("sequence: 128, global_batch: 32, options: {dropout: 2}"),
              HasSubstr("training.options.dropout is 2; a number from 0 to 1 is expected"));
  EXPECT_THAT(TrainingFault("sequence: 128, global_batch: 32, lora: {rank: 8, targets: [q]}"),
              HasSubstr("training.lora.targets[0] is q; allowed: q_proj"));
}

TEST(BadInput, WhatIsMissingIsNamed) {
  EXPECT_THAT(BadInput("cluster: {device: h100-sxm, devices: 8}\n" + std::string(kTrainingText)),
              HasSubstr("job:1:1: model is missing"));
  EXPECT_THAT(TrainingFault("global_batch: 32"),
              HasSubstr("job:3:11: training.sequence is missing; state the tokens"));
  EXPECT_THAT(ClusterFault("device: h100-sxm"), HasSubstr("cluster.devices is missing"));
  EXPECT_THAT(ClusterFault("devices: 8"), HasSubstr("cluster.device is missing"));
  EXPECT_THAT(ClusterFault("devices: 8, device: {peak: {bf16: 1 TFLOPS}, memory: 1 GB, "
                           "memory_bandwidth: 1 GB/s}"),
              HasSubstr("cluster.levels is missing; an inline device has no usual links"));
}

TEST(BadInput, ZeroAndNegativeSizesAreRefused) {
  EXPECT_EQ(TrainingFault("sequence: 0, global_batch: 32"),
            "job:3:22: training.sequence is 0; a whole number from 1 to 268435456 is expected");
  EXPECT_THAT(TrainingFault("sequence: 128, global_batch: -4"),
              HasSubstr("training.global_batch is -4; a whole number from 1"));
  EXPECT_THAT(ClusterFault("device: h100-sxm, devices: 0"),
              HasSubstr("cluster.devices is 0; a whole number from 1"));
  EXPECT_THAT(ClusterFault("device: {preset: h100-sxm, memory: 0 GB}, devices: 8"),
              HasSubstr("cluster.device.memory is 0 GB; a value above zero is expected"));
  EXPECT_THAT(ClusterFault("device: {preset: h100-sxm, memory: -1 GB}, devices: 8"),
              HasSubstr("'-1 GB' is negative"));
  EXPECT_THAT(ClusterFault("device: {preset: h100-sxm, peak: {bf16: 0 TFLOPS}}, devices: 8"),
              HasSubstr("a value above zero is expected"));
  EXPECT_THAT(BadInput(JobText("search: {margin: -1 GiB}\n")), HasSubstr("'-1 GiB' is negative"));
}

TEST(BadInput, AFigureWithoutAUnitIsNeverReadAsBytes) {
  EXPECT_EQ(ClusterFault("device: {preset: h100-sxm, memory: 80}, devices: 8"),
            "job:2:46: cluster.device.memory: '80' has no unit; write a size like '2GiB'");
  EXPECT_THAT(ClusterFault("device: {preset: h100-sxm, memory: 58G}, devices: 8"),
              HasSubstr("cluster.device.memory: '58G' has an unknown unit"));
  EXPECT_THAT(BadInput(JobText("search: {margin: 2}\n")),
              HasSubstr("job:4:18: search.margin: '2' has no unit"));
  EXPECT_THAT(ClusterFault("device: {preset: h100-sxm, host_link: 55}, devices: 8"),
              HasSubstr("'55' has no unit"));
  EXPECT_THAT(ClusterFault("device: {preset: h100-sxm, peak: {bf16: 989}}, devices: 8"),
              HasSubstr("'989' has no unit"));
}

TEST(BadInput, AnImpossibleBatchNamesTheNearestThatWorks) {
  // 4 replicas x 3 sequences = 12 at a time; 32 lies between 24 and 36.
  EXPECT_EQ(BadInput(JobText("search: {dp: 4, micro_batch: 3}\n")),
            "job:3:41: training.global_batch is 32, which dp 4 x micro_batch 3 cannot divide into "
            "micro-batches; the nearest batch that works is 36");
  EXPECT_THAT(BadInput(JobText("search: {dp: 8, micro_batch: [3, 5]}\n")),
              HasSubstr("micro_batch 3 or 5 cannot divide into micro-batches; the nearest batch "
                        "that works is 24"));
  // dp follows from 16 devices over tp 1 x cp 1 x pp 1.
  EXPECT_THAT(BadInput(JobText("current: {tp: 1, cp: 1, pp: 1, micro_batch: 4}\n")),
              HasSubstr("dp 16 x micro_batch 4 cannot divide into micro-batches; the nearest batch "
                        "that works is 64"));
  EXPECT_NO_THROW(ReadText(JobText("search: {dp: [3, 4], micro_batch: [3, 2]}\n")));
}

TEST(BadInput, DegreesThatDoNotMakeTheDevicesAreRefused) {
  EXPECT_EQ(BadInput(JobText("search: {tp: 3, cp: 1, pp: 2}\n")),
            "job:4:28: tp 3 x cp 1 x pp 2 does not divide the 16 devices; change one of them or "
            "cluster.devices");
  EXPECT_THAT(BadInput(JobText("search: {tp: 2, cp: 1, pp: 2, dp: 2}\n")),
              HasSubstr("dp is 2; tp 2 x cp 1 x pp 2 leave 4 of the 16 devices"));
  EXPECT_THAT(BadInput(JobText("search: {dp: 5}\n")),
              HasSubstr("dp is 5; a divisor of the 16 devices is expected"));
  EXPECT_NO_THROW(ReadText(JobText("search: {tp: [2, 3], cp: 1, pp: 2}\n")));
}

TEST(BadInput, ExpertsThatCannotBePlacedAreRefused) {
  const std::string moe =
      "model: {layers: 4, hidden: 64, heads: 8, kv_heads: 4, ffn: 256, vocab: 1000, experts: 8, "
      "experts_per_token: 2, expert_ffn: 64}\n" +
      std::string(kClusterText) + kTrainingText;
  EXPECT_EQ(BadInput(moe + "search: {ep: 3}\n"),
            "job:4:14: ep is 3; 8 experts cannot be placed on it: a divisor of 8 is expected");
  EXPECT_THAT(BadInput(moe + "search: {ep: [3, 16]}\n"), HasSubstr("ep is 3 or 16; 8 experts"));
  EXPECT_NO_THROW(ReadText(moe + "search: {ep: [3, 4]}\n"));
  EXPECT_THAT(BadInput(JobText("search: {ep: 2}\n")), HasSubstr("the model has no experts"));
}

TEST(BadInput, AnUnknownDeviceNamesTheNearest) {
  EXPECT_THAT(ClusterFault("device: h100-smx, devices: 16"),
              StartsWith("job:2:19: 'h100-smx' is no device preset; did you mean 'h100-sxm'? "
                         "presets: a100-40, a100-80, ascend-910b"));
  EXPECT_THAT(ClusterFault("preset: dgx-h10, devices: 16"),
              HasSubstr("'dgx-h10' is no cluster preset; did you mean 'dgx-h100'?"));
  EXPECT_THAT(ClusterFault("device: {preset: h100-sxm, silicon: h1000}, devices: 8"),
              HasSubstr("did you mean 'h100'?"));
}

TEST(BadInput, AClusterThatDoesNotFitTogetherIsRefused) {
  EXPECT_EQ(ClusterFault("device: h100-sxm, devices: 16, per_node: 5"),
            "job:2:52: cluster.per_node is 5; a divisor of the 16 devices is expected");
  EXPECT_THAT(
      ClusterFault("device: h100-sxm, devices: 16, levels: [{name: a, size: 8, bandwidth: "
                   "1 GB/s}, {name: b, size: 8, bandwidth: 1 GB/s}]"),
      HasSubstr("cluster.levels[1].size is 8; sizes grow from the inside out, and the level "
                "before it holds 8 devices"));
  EXPECT_THAT(ClusterFault("device: h100-sxm, devices: 16, levels: [{name: a, size: 8, bandwidth: "
                           "1 GB/s}]"),
              HasSubstr("the last level holds 8 devices; it is to hold all 16"));
  EXPECT_THAT(
      ClusterFault("device: v100, devices: 16"),
      HasSubstr("training.precision computes in bf16, for which device 'v100' states no peak "
                "rate; allowed: fp32 or fp16"));
  EXPECT_THAT(BadInput(JobText("search: {margin: 80 GiB}\n")),
              HasSubstr("search.margin is 80.0 GiB; less than the device's memory of 79.1 GiB"));
}

TEST(BadInput, AMissingFileIsNamed) {
  const Fault fault = FaultOf([] { ReadJob("nowhere/job.yaml", {}); });
  EXPECT_EQ(fault.code, ErrorCode::kBadInput);
  EXPECT_EQ(fault.what, "nowhere/job.yaml: no such file");
}

TEST(BadInput, TruncatedBinaryAndEmptyJobsAreRefused) {
  EXPECT_THAT(BadInput("model: {layers: 4\ncluster: [\n"), HasSubstr("not readable as YAML"));
  EXPECT_EQ(BadInput(std::string("a: \0b", 5)), "job: the file is binary, not text");
  EXPECT_EQ(BadInput(""), "job: the file is empty");
  const Fault json = FaultOf([] { ReadText("{\"model\": {", {}, Language::kJson); });
  EXPECT_THAT(json.what, HasSubstr("not readable as JSON"));
}

TEST(BadInput, DuplicateKeysAreRefused) {
  EXPECT_THAT(BadInput(JobText("model: {preset: x}\n")),
              HasSubstr("job:4:1: the key 'model' is given twice"));
}

TEST(BadInput, NotANumberAndHugeNumbersAreRefused) {
  EXPECT_THAT(TrainingFault("sequence: .nan, global_batch: 32"),
              HasSubstr("training.sequence is .nan; a whole number is expected"));
  EXPECT_THAT(TrainingFault("sequence: 128, global_batch: 32, options: {dropout: .nan}"),
              HasSubstr("training.options.dropout is .nan; a finite number is expected"));
  EXPECT_THAT(TrainingFault("sequence: 128, global_batch: 9223372036854775808"),
              HasSubstr("a number below 2^63 is expected"));
  EXPECT_THAT(ClusterFault("device: {preset: h100-sxm, memory: 99999999999 TB}, devices: 8"),
              HasSubstr("is larger than 2^63 bytes"));
  EXPECT_THAT(ClusterFault("device: {preset: h100-sxm, memory: nan GB}, devices: 8"),
              HasSubstr("'nan GB' is not a size"));
}

TEST(BadInput, AnOversizedFileIsRefused) {
  const std::string huge = "a: \"" + std::string(10u << 20, 'x') + "\"\n";
  EXPECT_THAT(BadInput(huge), HasSubstr("more than 8 MiB is not read"));
}

TEST(BadInput, AModelsConfigurationIsNoJob) {
  EXPECT_THAT(
      BadInput("{\"model_type\": \"llama\", \"hidden_size\": 64}\n"),
      HasSubstr("this is a model's config.json, not a job; a job names it: model: {hf: PATH}"));
}

TEST(BadInput, SwitchesThatContradictOneAnotherAreRefused) {
  EXPECT_THAT(TrainingFault("sequence: 128, global_batch: 32, options: {fp8_recipe: mx}"),
              HasSubstr("training.options.fp8_recipe is mx; it needs precision.compute fp8 or fp4, "
                        "and that is bf16"));
  EXPECT_THAT(TrainingFault("sequence: 128, global_batch: 32, options: {softmax_fp32: true}"),
              HasSubstr("it is a switch of unfused attention"));
}

}  // namespace
}  // namespace restow
