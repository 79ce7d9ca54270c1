#include "io/hyperparallel.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "io/test_jobs.h"
#include "restow/io/presets.h"

namespace restow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kCorpus = RESTOW_SOURCE_DIR "/../shared/data/configs/hyperparallel";

// What becomes of each file of the corpus. A file whose model stands nowhere beside it is read
// where a model preset has its name, and else refused for that.
struct Expected {
  const char* file;
  const char* outcome;  // "" : read; else part of the refusal
  const char* preset;   // the file needs it; "" : none
  int devices;          // where it is read
};

const std::vector<Expected>& Outcomes() {
  static const char* tuner = "argument file of HyperParallel's fast tuner, not a training job";
  static const char* balancer = "HyperParallel's pipeline balancer (sapp_ppb)";
  static const char* mindformers = "this is a MindFormers training file";
  static const char* no_model = "no model preset of that name";
  static const std::vector<Expected> outcomes = {
      {"fasttuner_args_for_dryrun.json", tuner, "", 0},
      {"fasttuner_args_for_parallel_tool_titan.json", tuner, "", 0},
      {"fasttuner_args_for_pipeline_parallel.json", tuner, "", 0},
      {"fasttuner_pretrain_deepseek3_671b.yaml", mindformers, "", 0},
      {"fork_nd_deepseek_v41_crop.yaml", "q_lora_rank is 160 without kv_lora_rank", "", 0},
      {"fork_nd_search_moe_llm.yaml", "", "", 64},
      {"fork_trainer_qwen3_5_moe_recipe.yaml", no_model, "qwen3.5-35b-a3b", 64},
      {"fork_trainer_qwen3_vl_30b_64dev_host_swap.yaml",
       "activation_checkpoint.mode is full_except_moe, which is not available", "", 0},
      {"nd_hyper_qwen3_72b.yaml", "", "", 1024},
      {"nd_memtest_deepseek3.yaml", mindformers, "", 0},
      {"nd_memtest_mixtral.yaml", "", "", 16},
      {"nd_search_deepseek_v3_671b_512devices.yaml", "", "", 512},
      {"nd_search_dense_llm.yaml", "", "", 32},
      {"nd_search_moe_llm.yaml", "", "", 64},
      {"ppb_init_demo.yaml", balancer, "", 0},
      {"ppb_layers_llama2_70b.json", balancer, "", 0},
      {"ppb_test_mem_lstsq.yaml", balancer, "", 0},
      {"ppb_test_mem_pp4.yaml", balancer, "", 0},
      {"ppb_test_seqpipe_llama2_7b.yaml", mindformers, "", 0},
      {"trainer_deepseekv3_codegen_ep8.yaml", no_model, "deepseek-v3", 8},
      {"trainer_dryrun_ep_explicit.yaml", no_model, "", 0},
      {"trainer_dryrun_pp_fsdp.yaml", no_model, "", 0},
      {"trainer_glm5.yaml", "", "", 1},
      {"trainer_kimi_k26_512cards.yaml", no_model, "kimi-k2.6", 512},
      {"trainer_large_qwen3_moe_compile.yaml", "it is built by code", "", 0},
      {"trainer_qwen3_5_35b_a3b_base.yaml", no_model, "qwen3.5-35b-a3b", 4},
      {"trainer_qwen3_8_27b_high_performance.yaml", no_model, "", 0},
      {"trainer_qwen3_moe_recipe.yaml", no_model, "qwen3-30b-a3b", 8},
      {"trainer_qwen3_vl_30b_pp_mpipe.yaml", "", "qwen3-vl-30b-a3b", 0},
      {"trainer_skeleton_tp2_fsdp2.yaml", no_model, "", 0},
      {"trainer_test_fsdp_config_watch.yaml", "fsdp_config.enable_offload is true", "", 0},
      {"trainer_test_hsdp_tp_ep_moe.yaml", "it is built by code (torch.nn.Identity)", "", 0},
      {"trainer_training_demo.yaml", no_model, "qwen3-30b-a3b", 8},
  };
  return outcomes;
}

bool HasPreset(const std::string& name) {
  const std::vector<std::string> presets = ModelPresets();
  return std::find(presets.begin(), presets.end(), name) != presets.end();
}

void Check(const Expected& expected) {
  SCOPED_TRACE(expected.file);
  const std::string path = std::string(kCorpus) + "/" + expected.file;
  const bool by_preset = expected.preset[0] != '\0' && HasPreset(expected.preset);
  const bool read =
      by_preset ? expected.devices > 0 : expected.outcome[0] == '\0' && expected.preset[0] == '\0';
  try {
    const Job job = ReadJob(path, {});
    EXPECT_TRUE(read);
    EXPECT_EQ(job.cluster.devices, expected.devices);
    EXPECT_TRUE(job.unknown.empty()) << job.unknown.front().path;
    EXPECT_TRUE(job.current.has_value() != job.search.dp.stated);
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::kBadInput || error.code() == ErrorCode::kUnsupported);
    // A preset of a family that is not priced is refused by the model's reader.
    if (by_preset && error.code() == ErrorCode::kUnsupported) return;
    EXPECT_FALSE(read) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(expected.outcome));
  }
}

TEST(HyperParallelCorpus, EveryFileIsReadOrRefusedByName) {
  if (!std::filesystem::exists(kCorpus)) GTEST_SKIP() << "the corpus is not beside the repository";
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kCorpus)) {
    files.insert(entry.path().filename());
  }
  for (const Expected& expected : Outcomes()) {
    EXPECT_EQ(files.erase(expected.file), 1u) << expected.file;
    Check(expected);
  }
  EXPECT_TRUE(files.empty()) << "no outcome is stated for " << *files.begin();
}

// ---- Trainer files of the newer schema ---------------------------------------------------------

constexpr const char* kSizes =
    "model:\n  torch_dtype: bfloat16\n  config_overrides: {hidden_size: 64, num_hidden_layers: 8, "
    "num_attention_heads: 8, num_key_value_heads: 4, intermediate_size: 256, vocab_size: 1000}\n";

std::string Trainer(const std::string& accelerator, const std::string& fsdp,
                    const std::string& rest = "") {
  return std::string(kSizes) +
         "training: {global_batch_size: 64, micro_batch_size: 1}\n"
         "dataset: {data_config: {seq_length: 512}}\n"
         "accelerator: {" +
         accelerator + "}\nfsdp_config: {" + fsdp + "}\n" + rest;
}

TEST(HyperParallelTrainer, DegreesAreWhatRunsToday) {
  const Job job = ReadText(Trainer("tp_size: 2, cp_size: 4, pp_size: 2, sequence_parallel: true",
                                   "dp_shard_size: 8, reshard_after_forward: true",
                                   "activation_checkpoint: {mode: selective}\n"));
  const CurrentStrategy& current = *job.current;
  EXPECT_EQ(job.training.framework, Framework::kHyperParallel);
  EXPECT_EQ(job.training.sequence, 512);
  EXPECT_EQ(job.training.global_batch, 64);
  // dp_shard_size spans dp * cp: 8 of them, two for each of cp's four; 2 * 8 * 2 = 32 devices.
  EXPECT_EQ(job.cluster.devices, 32);
  EXPECT_EQ(current.dp, 2);
  EXPECT_EQ(current.tp, 2);
  EXPECT_EQ(current.cp, 4);
  EXPECT_EQ(current.sp, true);
  EXPECT_EQ(current.zero, 3);
  EXPECT_FALSE(current.zero_span.has_value());
  EXPECT_EQ(current.recompute->mode, Recompute::kSelective);
  EXPECT_EQ(job.cluster.device.name, "ascend-910b");
  EXPECT_EQ(ToString(job.At("current.tp")), "job:6:24");
  // Weights stay in the dtype they are built in; torch's optimizers follow them.
  EXPECT_EQ(job.training.precision.weights, DType::kBf16);
  EXPECT_EQ(job.training.precision.optimizer, DType::kBf16);
  EXPECT_FALSE(job.training.precision.master.has_value());
}

TEST(HyperParallelTrainer, MixedPrecisionCastsFloatWeights) {
  std::string text = Trainer("tp_size: 1", "dp_shard_size: 8",
                             "mixed_precision: {enabled: true, param_dtype: bfloat16}\n");
  text.replace(text.find("bfloat16"), 8, "float32");
  const Precision precision = ReadText(text).training.precision;
  EXPECT_EQ(precision.weights, DType::kFp32);
  EXPECT_EQ(precision.compute, DType::kBf16);
  EXPECT_EQ(precision.gradients, DType::kFp32);
}

TEST(HyperParallelTrainer, DevicesFillTheExpertGroups) {
  // 8 experts' ranks, each sharded over 4: 32 devices, though the dense shard spans 16 of them.
  std::string text = Trainer("ep_size: 8", "dp_shard_size: 16, edp_shard_size: 4");
  text.replace(text.find("vocab_size"), 10,
               "num_experts: 8, num_experts_per_tok: 2, "
               "moe_intermediate_size: 64, vocab_size");
  const Job job = ReadText(text);
  EXPECT_EQ(job.cluster.devices, 32);
  EXPECT_EQ(job.current->dp, 32);
  EXPECT_EQ(job.current->zero_span, 16);
}

TEST(HyperParallelTrainer, AnOpenDeviceCountIsAskedFor) {
  EXPECT_THAT(BadInput(Trainer("tp_size: 2, dp_shard: -1", "")),
              HasSubstr("add `cluster: {device: ascend-910b, devices: N}` to the file"));
  const Job job = ReadText(Trainer("tp_size: 2, dp_shard: -1", "",
                                   "cluster: {device: ascend-910c, devices: 32}\n"
                                   "search: {tp: [2, 4], recompute: auto}\n"));
  EXPECT_EQ(job.cluster.device.name, "ascend-910c");
  EXPECT_EQ(job.current->dp, 16);
  EXPECT_EQ(job.current->zero, 3);
  EXPECT_THAT(job.search.tp.values, ElementsAre(2, 4));
  EXPECT_TRUE(job.search.recompute.automatic);
}

TEST(HyperParallelTrainer, TheModeIsReadStrictly) {
  const auto mode = [](const std::string& value) {
    return Trainer("tp_size: 1", "dp_shard_size: 8",
                   "activation_checkpoint: {mode: " + value + "}\n");
  };
  EXPECT_EQ(ReadText(mode("off")).current->recompute->mode, Recompute::kOff);
  EXPECT_EQ(ReadText(mode("null")).current->recompute->mode, Recompute::kOff);
  EXPECT_EQ(ReadText(Trainer("tp_size: 1", "dp_shard_size: 8")).current->recompute->mode,
            Recompute::kOff);
  for (const char* value : {"[full]", "auto", "true", "ful", "\"false\""}) {
    EXPECT_THAT(BadInput(mode(value)), HasSubstr("job:8:31: activation_checkpoint.mode is"))
        << value;
    EXPECT_THAT(BadInput(mode(value)), HasSubstr("allowed: one mode (off, selective or full)"));
  }
  const Fault later = JobFault(mode("full_except_moe"));
  EXPECT_EQ(later.code, ErrorCode::kUnsupported);
  EXPECT_THAT(later.what, HasSubstr("is full_except_moe, which is not available in this version"));
}

TEST(HyperParallelTrainer, CountsPerStageBecomeModesPerLayer) {
  const Job job = ReadText(Trainer("pp_size: 2, pp_schedule: 1f1b", "dp_shard_size: 4",
                                   "activation_checkpoint: {mode: full, num_layers: [3, 1]}\n"));
  constexpr Recompute o = Recompute::kOff;
  constexpr Recompute f = Recompute::kFull;
  // 8 layers in two stages of four: the first three and the first one of them.
  EXPECT_THAT(job.current->recompute->layers, ElementsAre(f, f, f, o, f, o, o, o));
  EXPECT_THAT(BadInput(Trainer("pp_size: 2", "dp_shard_size: 4",
                               "activation_checkpoint: {mode: full, num_layers: [3, 1, 1]}\n")),
              HasSubstr("one count for each of the 2 stages is expected"));
}

TEST(HyperParallelTrainer, LayersMovedBetweenStagesAreKept) {
  std::string text = Trainer("pp_size: 2", "dp_shard_size: 4",
                             "activation_checkpoint: {mode: full, num_layers: [3, 1]}\n");
  text.replace(text.find("torch_dtype"), 0, "offset: [1, -1]\n  ");
  const Job job = ReadText(text);
  EXPECT_THAT(job.training.options.chunk_layers, ElementsAre(5, 3));
  constexpr Recompute o = Recompute::kOff;
  constexpr Recompute f = Recompute::kFull;
  EXPECT_THAT(job.current->recompute->layers, ElementsAre(f, f, f, o, o, f, o, o));
}

TEST(HyperParallelTrainer, SwapsOffloadsAndOtherSchedulesAreNotAvailable) {
  for (const char* rest :
       {"activation_swap: all\n", "activation_checkpoint: {mode: full, swap_inputs: true}\n",
        "ep_host_swap: {enabled: true}\n"}) {
    const Fault fault = JobFault(Trainer("tp_size: 1", "dp_shard_size: 8", rest));
    EXPECT_EQ(fault.code, ErrorCode::kUnsupported) << rest;
    EXPECT_THAT(fault.what, HasSubstr("not available in this version"));
  }
  EXPECT_NO_THROW(ReadText(Trainer("tp_size: 1", "dp_shard_size: 8", "activation_swap: none\n")));
  const Fault schedule = JobFault(Trainer("pp_size: 2, pp_schedule: mpipe", "dp_shard_size: 4"));
  EXPECT_EQ(schedule.code, ErrorCode::kUnsupported);
  EXPECT_THAT(schedule.what, HasSubstr("accelerator.pp_schedule is mpipe"));
}

TEST(HyperParallelTrainer, UnknownFieldsAreListedAndRefusedUnderStrict) {
  const std::string text = Trainer("tp_size: 1, warp_size: 3", "dp_shard_size: 8");
  const Job job = ReadText(text);
  ASSERT_EQ(job.unknown.size(), 1u);
  EXPECT_EQ(job.unknown.front().path, "accelerator.warp_size");
  ReadOptions strict;
  strict.strict = true;
  EXPECT_THAT(BadInput(text, strict), HasSubstr("job:6:38: unknown field 'accelerator.warp_size'"));
}

TEST(HyperParallelTrainer, TwoNamesOfOneFieldMustAgree) {
  EXPECT_THAT(BadInput(Trainer("tp_size: 2, tp_degree: 4", "dp_shard_size: 8")),
              HasSubstr("accelerator.tp_degree is 4; accelerator.tp_size says 2"));
}

TEST(HyperParallelTrainer, AModelThatStandsNowhereSaysWhereItWasLookedFor) {
  const std::string what = BadInput(
      "model: {pretrained_model_name_or_path: somebody/no-such-model}\n"
      "training: {global_batch_size: 8}\naccelerator: {tp_size: 1}\n");
  EXPECT_THAT(what,
              HasSubstr("job:1:40: model.pretrained_model_name_or_path is "
                        "somebody/no-such-model; there is no "
                        "somebody/no-such-model/config.json and no model preset of that name"));
  EXPECT_THAT(what, HasSubstr("model.config_overrides"));
}

// ---- The older schema and search configurations ------------------------------------------------

TEST(HyperParallelTrainer, TheOlderSchemaReadsAlike) {
  const Job job = ReadText(std::string(kSizes) +
                           "data: {max_seq_len: 256}\n"
                           "train:\n"
                           "  global_batch_size: 64\n"
                           "  micro_batch_size: 2\n"
                           "  accelerator: {dp_shard: 4, dp_replicate: 2, tp: 2}\n"
                           "  gradient_checkpointing: {activation_checkpoint: full}\n"
                           "  optimizer: {type: sgd}\n"
                           "context: {max_device_memory: \"54GB\"}\n");
  EXPECT_EQ(job.cluster.devices, 16);
  EXPECT_EQ(job.current->dp, 8);
  EXPECT_EQ(job.current->zero_span, 4);
  EXPECT_EQ(job.current->micro_batch, 2);
  EXPECT_EQ(job.current->recompute->mode, Recompute::kFull);
  EXPECT_EQ(job.training.optimizer, Optimizer::kSgd);
  EXPECT_EQ(job.cluster.device.memory.value(), 54 * kGiB);
}

constexpr const char* kSearch =
    "model: {name: m, num_hidden_layers: 8, hidden_size: 64, num_attention_heads: 8, "
    "intermediate_size: 256, vocab_size: 1000, seq_len: 512, local_batch_size: 1}\n"
    "cluster: {num_nodes: 2, cards_per_node: 8, device_type: A3, device_memory_gb: 58.0}\n"
    "constraint: {global_batch_size: 64, memory_limit_gb: 56.0}\n";

TEST(HyperParallelSearch, StatesDimensions) {
  const Job job = ReadText(std::string(kSearch) +
                           "parallelism: {dp: [2, 4], fsdp: [1, 2], tp: [1, 2], pp: auto, cp: 1, "
                           "etp: 0, micro_batch_num: [8, 16]}\n"
                           "recompute: [selective, off]\n"
                           "pp_config: {pp_interleave_num: 1, pipeline_schedule: 1F1B}\n");
  const SearchSpace& s = job.search;
  EXPECT_EQ(job.cluster.devices, 16);
  EXPECT_EQ(job.cluster.device.name, "ascend-910c");
  EXPECT_EQ(job.cluster.device.memory.value(), 58 * kGiB);
  EXPECT_EQ(job.Margin().value(), 2 * kGiB);
  EXPECT_THAT(s.dp.values, ElementsAre(2, 4, 8));
  EXPECT_THAT(s.zero.values, ElementsAre(0, 3));
  EXPECT_THAT(s.zero_span.values, ElementsAre(2));
  EXPECT_THAT(s.tp.values, ElementsAre(1, 2));
  EXPECT_TRUE(s.pp.automatic);
  EXPECT_THAT(s.cp.values, ElementsAre(1));
  EXPECT_FALSE(s.etp.stated);
  // 64 = 8 replicas x 1 sequence x 8 micro-batches: the stated size agrees with the counts.
  EXPECT_THAT(s.micro_batch.values, ElementsAre(1));
  EXPECT_THAT(s.vpp.values, ElementsAre(1));
  EXPECT_THAT(s.schedule.values, ElementsAre(Schedule::k1F1B));
  EXPECT_THAT(s.recompute.values, ElementsAre(Recompute::kSelective, Recompute::kOff));
}

TEST(HyperParallelSearch, CountsOfMicroBatchesBecomeSizes) {
  // 64 over dp 2 or 4 in 4 micro-batches: 8 or 4 sequences each; one sequence never does.
  const Job job =
      ReadText(std::string(kSearch) + "parallelism: {dp: [2, 4], micro_batch_num: 4}\n");
  EXPECT_THAT(job.search.micro_batch.values, ElementsAre(4, 8));
  EXPECT_FALSE(job.notes.empty());
}

TEST(HyperParallelSearch, RecomputeIsReadAsADimension) {
  const auto fault = [](const std::string& value) {
    return JobFault(std::string(kSearch) + "parallelism: {tp: 1}\nrecompute: " + value + "\n");
  };
  EXPECT_THAT(fault("[auto, full]").what,
              HasSubstr("recompute is [auto, full]; auto stands alone"));
  EXPECT_THAT(fault("true").what, HasSubstr("job:5:12: recompute is true; allowed: a mode"));
  EXPECT_EQ(fault("per_layer").code, ErrorCode::kUnsupported);
}

TEST(HyperParallelSearch, ALimitAboveTheMemoryIsRefused) {
  std::string text = std::string(kSearch) + "parallelism: {tp: 1}\n";
  text.replace(text.find("56.0"), 4, "60.0");
  EXPECT_THAT(BadInput(text),
              HasSubstr("constraint.memory_limit_gb is 60.0; at most the device's"));
}

TEST(HyperParallelFiles, AreToldFromJobsByTheirKeys) {
  EXPECT_FALSE(IsHyperParallel(ParseDocument(JobText(), Language::kYaml, "job")));
  EXPECT_TRUE(IsHyperParallel(ParseDocument(kSearch, Language::kYaml, "job")));
  EXPECT_TRUE(
      IsHyperParallel(ParseDocument("fsdp_config: {dp_shard_size: 2}", Language::kYaml, "f")));
}

}  // namespace
}  // namespace restow
