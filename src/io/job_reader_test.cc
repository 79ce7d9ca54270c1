#include "io/job_reader.h"

#include <gmock/gmock.h>

#include "io/test_jobs.h"
#include "restow/io/presets.h"

namespace restow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kWholeJob = R"(name: everything
model:
  layers: 4
  hidden: 64
  heads: 8
  kv_heads: 4
  ffn: 256
  vocab: 1000
cluster:
  device:
    name: mine
    silicon: h100
    peak: {bf16: 989 TFLOPS, fp8: 1979 TFLOP/s}
    memory: 80 GB
    memory_bandwidth: 3.35 TB/s
    host_link: 55 GB/s
    host_memory: 2 TB
  devices: 64
  per_node: 8
  levels: [{name: nvlink, size: 8, bandwidth: 450 GB/s, latency: 3 us}, {name: ib, size: 64, bandwidth: 50 GB/s}]
training:
  sequence: 8192
  global_batch: 512
  precision: {compute: fp8, weights: bf16, gradients: fp32, master: none, optimizer: bf16}
  optimizer: adafactor
  attention: unfused
  loss: chunked
  frozen: [visual, "layers.*"]
  lora: {rank: 16, targets: [q_proj, v_proj]}
  framework: megatron
  release: core 0.13
  options: {te: "2.11", wgrad_fusion: 1, dropout: 0.1, fp8_recipe: mx, chunk_layers: 1/3, recompute_modules: [core_attn, mlp]}
  visual_tokens: 576
current: {tp: 8, pp: 4, micro_batch: 1, recompute: full}
search:
  tp: auto
  pp: [1, 2, 4, 8]
  recompute: auto
  margin: 2GiB
)";

TEST(JobReader, ReadsEveryFieldOfAJob) {
  const Job job = ReadText(kWholeJob);
  EXPECT_EQ(job.name, "everything");
  EXPECT_EQ(job.model.stack.layers(), 4);
  const Device& device = job.cluster.device;
  EXPECT_EQ(device.name, "mine");
  EXPECT_EQ(device.silicon, "h100");
  EXPECT_EQ(device.peak.at(DType::kBf16).value(), 989e12);
  EXPECT_EQ(device.peak.at(DType::kFp8).value(), 1979e12);
  EXPECT_EQ(device.memory.value(), 80000000000);
  EXPECT_EQ(device.memory_bandwidth.value(), 3.35e12);
  EXPECT_EQ(device.host_link.value(), 55e9);
  EXPECT_EQ(device.host_memory.value(), 2000000000000);
  EXPECT_EQ(device.compute_units, 132);  // of its silicon, H100
  ASSERT_EQ(job.cluster.levels.size(), 2u);
  EXPECT_EQ(job.cluster.levels[0].latency.value(), 3e-6);
  EXPECT_EQ(job.cluster.levels[1].size, 64);
  const Training& training = job.training;
  EXPECT_EQ(training.sequence, 8192);
  EXPECT_EQ(training.global_batch, 512);
  EXPECT_EQ(training.precision.compute, DType::kFp8);
  EXPECT_FALSE(training.precision.master.has_value());
  EXPECT_EQ(training.precision.optimizer, DType::kBf16);
  EXPECT_EQ(training.optimizer, Optimizer::kAdafactor);
  EXPECT_EQ(training.attention, AttentionKernel::kUnfused);
  EXPECT_EQ(training.loss, LossKernel::kChunked);
  EXPECT_THAT(training.frozen, ElementsAre("visual", "layers.*"));
  EXPECT_EQ(training.lora->rank, 16);
  EXPECT_THAT(training.lora->targets, ElementsAre("q_proj", "v_proj"));
  EXPECT_EQ(training.release, "core 0.13");
  EXPECT_EQ(training.options.te, "2.11");
  EXPECT_EQ(training.options.wgrad_fusion, true);
  EXPECT_EQ(training.options.dropout, 0.1);
  EXPECT_EQ(training.options.fp8_recipe, "mx");
  EXPECT_THAT(training.options.chunk_layers, ElementsAre(1, 3));
  EXPECT_THAT(training.options.recompute_modules, ElementsAre("core_attn", "mlp"));
  EXPECT_EQ(training.visual_tokens, 576);
  EXPECT_EQ(job.current->tp, 8);
  EXPECT_EQ(job.search.margin->value(), 2 * kGiB);
  EXPECT_EQ(job.Margin().value(), 2 * kGiB);
}

TEST(JobReader, EveryValueKeepsItsPlace) {
  const Job job = ReadText(kWholeJob);
  EXPECT_EQ(ToString(job.At("cluster.devices")), "job:18:12");
  EXPECT_EQ(ToString(job.At("training.sequence")), "job:22:13");
  EXPECT_EQ(ToString(job.At("search.pp[2]")), "job:37:14");
  EXPECT_EQ(ToString(job.At("model.hidden")), "job:4:11");
  EXPECT_EQ(ToString(job.At("training.options.dropout")), "job:32:51");
}

TEST(JobReader, JsonReadsAsYamlDoes) {
  const std::string json = R"({"model": {"layers": 4, "hidden": 64, "heads": 8, "kv_heads": 4,
    "ffn": 256, "vocab": 1000}, "cluster": {"device": "h100-sxm", "devices": 16},
    "training": {"sequence": 128, "global_batch": 32}, "search": {"tp": [1, 2], "pp": "auto",
    "recompute": [false, "full"]}})";
  const Job job = ReadText(json, {}, Language::kJson);
  EXPECT_THAT(job.search.tp.values, ElementsAre(1, 2));
  EXPECT_TRUE(job.search.pp.automatic);
  EXPECT_THAT(job.search.recompute.values, ElementsAre(Recompute::kOff, Recompute::kFull));
}

TEST(JobReader, PrecisionInOneWordFollowsTheFramework) {
  const auto precision = [](const std::string& framework, const std::string& dtype) {
    return ReadText(JobText("", "training: {sequence: 128, global_batch: 32, framework: " +
                                    framework + ", precision: " + dtype + "}\n"))
        .training.precision;
  };
  const Precision megatron = precision("megatron", "bf16");
  EXPECT_EQ(megatron.weights, DType::kBf16);
  EXPECT_EQ(megatron.gradients, DType::kFp32);
  EXPECT_EQ(megatron.master, DType::kFp32);
  const Precision eight = precision("megatron", "fp8");
  EXPECT_EQ(eight.compute, DType::kFp8);
  EXPECT_EQ(eight.weights, DType::kBf16);
  for (const char* framework : {"torchtitan", "torch", "hyperparallel", "mindformers"}) {
    const Precision sharded = precision(framework, "bf16");
    EXPECT_EQ(sharded.compute, DType::kBf16);
    EXPECT_EQ(sharded.weights, DType::kFp32);
    EXPECT_EQ(sharded.gradients, DType::kFp32);
    EXPECT_FALSE(sharded.master.has_value());
  }
  EXPECT_FALSE(precision("megatron", "fp32").master.has_value());
}

TEST(JobReader, TheDigestFollowsValuesAndNotLayoutOrComments) {
  ReadOptions options;
  const std::string digest = ReadText(JobText()).digest;
  EXPECT_EQ(digest.size(), 16u);
  EXPECT_EQ(ReadText("# a comment\n" + JobText()).digest, digest);
  EXPECT_NE(ReadText(JobText("search: {tp: 2}\n")).digest, digest);
  options.dimensions = {"tp=2"};
  EXPECT_NE(ReadText(JobText(), options).digest, digest);
  EXPECT_NE(ReadText(JobText("search: {tp: \"2,4\"}\n")).digest,
            ReadText(JobText("search: {tp: [2, 4]}\n")).digest);
}

TEST(JobReader, TheMarginOptionReplacesTheFiles) {
  ReadOptions options;
  options.margin = "3GiB";
  EXPECT_EQ(ReadText(JobText("search: {margin: 1GiB}\n"), options).search.margin->value(),
            3 * kGiB);
  options.margin = "3";
  EXPECT_THAT(BadInput(JobText(), options), HasSubstr("argument --margin 3: '3' has no unit"));
}

TEST(JobReader, AClusterPresetStatesDeviceAndLinks) {
  const Job job =
      ReadText(JobText("", kTrainingText, "cluster: {preset: jean-zay-a100, devices: 16}\n"));
  EXPECT_EQ(job.cluster.device.name, "a100-80");
  ASSERT_EQ(job.cluster.levels.size(), 2u);
  // Four 100 Gb/s ports to eight devices: 4 * 12.5 / 8 = 6.25 GB/s.
  EXPECT_EQ(job.cluster.levels[1].bandwidth.value(), 6.25e9);
  EXPECT_EQ(job.cluster.levels[1].size, 16);
}

TEST(JobReader, AnInlineDeviceMayStartFromAPreset) {
  const Job job = ReadText(JobText(
      "", kTrainingText, "cluster: {device: {preset: h100-sxm, memory: 70 GiB}, devices: 8}\n"));
  EXPECT_EQ(job.cluster.device.memory.value(), 70 * kGiB);
  EXPECT_EQ(job.cluster.device.silicon, "h100");
  EXPECT_EQ(job.cluster.levels.size(), 1u);
}

TEST(JobReader, AModelIsReadFromAFileBesideTheJob) {
  const std::string job =
      "model: {hf: none/config.json}\n" + std::string(kClusterText) + std::string(kTrainingText);
  EXPECT_EQ(BadInput(job), "job:1:13: model.hf: none/config.json: no such file");
}

}  // namespace
}  // namespace restow
