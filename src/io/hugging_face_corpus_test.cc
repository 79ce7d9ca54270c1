// Every real configuration of the shared corpus: read with its exact parameter count, or refused
// by name with the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <string>

#include "restow/io/read.h"

namespace restow {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kCorpus = fs::path(RESTOW_SOURCE_DIR) / "../shared/data/configs/hf";

struct Expected {
  const char* folder;
  std::int64_t parameters;  // exact; where `counted`, transformers 4.57.6 counts the same
  bool counted;
  double published = 0;  // 0: none, as for shrunken models
  const char* source = "";
};

// "weights": the total of the repository's weight files, as its page shows it. No published count
// is listed where only a rounder one exists (Kimi K2's "1T", Olmo's "32B", Phi-mini-MoE's "7.6B")
// or where it counts something else (see PublishedCountsOfOtherThings).
constexpr Expected kRead[] = {
    {"bloom-tiny", 564'168'704, true},
    {"codegen2.5-7b", 6'895'702'016, true},
    {"cohere-command-r", 34'980'831'232, true, 35e9, "CohereForAI/c4ai-command-r-v01, card: 35B"},
    {"deepseek-r1", 671'026'419'200, true, 671e9, "arXiv:2412.19437, section 4.2"},
    {"deepseek-v2-236b", 235'741'434'880, true, 236e9, "arXiv:2405.04434, abstract"},
    {"deepseek-v2-lite", 15'706'484'224, true, 15.7e9, "arXiv:2405.04434, appendix B"},
    {"deepseek-v3-16b-moonlight", 15'960'110'208, true, 16e9, "arXiv:2502.16982: 16B"},
    {"devstral-small-2-24b-pixtral", 24'011'361'280, true, 24e9, "mistralai, model card: 24B"},
    {"falcon-40b", 41'303'293'952, true, 41.3e9, "tiiuae/falcon-40b, weights"},
    {"falcon-7b-1layer", 504'547'584, true},
    {"gemma-3-4b-it", 4'300'079'472, true, 4.30e9, "google/gemma-3-4b-it, weights"},
    {"gemma-7b", 8'537'680'896, true, 8.54e9, "google/gemma-7b, weights"},
    {"glm-4-9b-chat", 9'399'951'360, true, 9.4e9, "THUDM/glm-4-9b-chat, weights"},
    {"glm-4.1v", 10'292'777'472, true, 10.3e9, "THUDM/GLM-4.1V-9B-Thinking, weights"},
    {"glm-4.5", 352'797'829'024, true},
    {"gpt-bigcode-test", 7'327'263'232, true},
    {"gpt-oss-120b", 116'829'156'672, true, 116.83e9, "arXiv:2508.10925, table 1"},
    {"gpt-oss-20b", 20'914'757'184, true, 20.91e9, "arXiv:2508.10925, table 1"},
    {"gpt2-large", 774'030'080, true, 774e6, "openai-community/gpt2-large, card"},
    {"gptj-1layer", 614'290'656, true},
    {"grok-1-reference", 315'684'820'992, false},
    {"internlm2.5-1.8b", 1'889'110'016, true, 1.89e9, "internlm/internlm2_5-1_8b, weights"},
    {"internvl2-4b", 4'146'855'936, false},
    {"kimi-k2", 1'026'408'232'448, true},
    {"kimi-k2.5", 1'026'879'376'368, false},
    {"llama-2-70b", 68'976'648'192, true, 69.0e9, "meta-llama/Llama-2-70b-hf, weights"},
    {"llama-2-7b", 6'738'415'616, true, 6.74e9, "meta-llama/Llama-2-7b-hf, weights"},
    {"llama-3-70b", 70'553'706'496, true, 70.6e9, "meta-llama/Meta-Llama-3-70B, weights"},
    {"llama-3-72b-veomni", 70'553'706'496, true},
    {"llama-3.1-405b", 405'853'388'800, true, 405e9, "arXiv:2407.21783, table 3"},
    {"llama-3.1-8b", 8'030'261'248, true, 8.03e9, "meta-llama/Llama-3.1-8B, weights"},
    {"llama-4-scout", 108'641'793'536, true, 109e9, "meta-llama/Llama-4-Scout, card: 109B"},
    {"llava-v1.5-7b", 7'062'902'784, false, 7.06e9, "llava-hf/llava-1.5-7b-hf, weights"},
    {"mimo-7b-base", 7'622'619'136, true},
    {"mimo-v2-flash", 308'778'780'864, false, 309e9, "XiaomiMiMo/MiMo-V2-Flash, card: 309B"},
    {"minicpm-v-2.6", 8'099'175'152, false, 8.1e9, "openbmb/MiniCPM-V-2_6, weights"},
    {"minicpm3-4b", 4'073'875'968, false, 4.07e9, "openbmb/MiniCPM3-4B, weights"},
    {"minimax-m2.5", 228'689'764'864, false, 229e9, "MiniMaxAI/MiniMax-M2, weights: 229B"},
    {"mistral-7b-v0.2", 7'241'732'096, true, 7.24e9, "mistralai/Mistral-7B-v0.2, weights"},
    {"mixtral-8x22b", 140'620'634'112, true, 141e9, "mistral.ai: 141B, 39B active"},
    {"mixtral-8x7b", 46'702'792'704, true, 46.7e9, "arXiv:2401.04088; card: 46.7B"},
    {"molmo-7b-d", 8'021'025'280, false, 8.02e9, "allenai/Molmo-7B-D-0924, weights"},
    {"mpt-7b", 6'649'286'656, true, 6.65e9, "mosaicml/mpt-7b, weights"},
    {"nemotron-70b", 70'553'706'496, true, 70.6e9, "nvidia/Llama-3.1-Nemotron-70B, weights"},
    {"olmo-3.1-32b", 32'233'522'176, true},
    {"opt-1layer", 157'517'824, true},
    {"phi-1layer", 340'871'680, true},
    {"phi-3-mini-4k", 3'821'079'552, true, 3.82e9, "microsoft/Phi-3-mini-4k-instruct, weights"},
    {"phi-mini-moe", 7'647'632'704, true},
    {"pythia-6.9b", 6'857'302'016, true, 6.86e9, "EleutherAI/pythia-6.9b, card"},
    {"qwen-7b-chat", 7'721'324'544, false, 7.72e9, "Qwen/Qwen-7B-Chat, weights"},
    {"qwen1.5-4b", 3'950'369'280, true, 3.95e9, "Qwen/Qwen1.5-4B, weights"},
    {"qwen2-1.5b", 1'543'714'304, true, 1.54e9, "Qwen/Qwen2-1.5B, weights"},
    {"qwen2-audio", 8'397'094'912, true, 8.4e9, "Qwen/Qwen2-Audio-7B, weights"},
    {"qwen2-vl-7b", 8'291'375'616, true, 8.29e9, "Qwen/Qwen2-VL-7B-Instruct, weights"},
    {"qwen2.5-32b", 32'763'876'352, true, 32.8e9, "Qwen/Qwen2.5-32B, weights"},
    {"qwen2.5-72b", 72'706'203'648, true, 72.7e9, "Qwen/Qwen2.5-72B, weights"},
    {"qwen2.5-7b", 7'615'616'512, true, 7.62e9, "Qwen/Qwen2.5-7B, weights"},
    {"qwen2.5-omni-toy", 1'690'960'496, true},
    {"qwen2.5-vl-3b", 3'754'622'976, true, 3.75e9, "Qwen/Qwen2.5-VL-3B-Instruct, weights"},
    {"qwen3-0.6b", 596'049'920, true},
    {"qwen3-30b-a3b", 30'532'122'624, true, 30.5e9, "arXiv:2505.09388, table 2; card: 30.5B"},
    {"qwen3-30b-a3b-fp8", 30'532'122'624, true, 30.5e9, "Qwen/Qwen3-30B-A3B-FP8, card: 30.5B"},
    {"qwen3-coder-480b-a35b", 480'154'875'392, true, 480e9, "Qwen/Qwen3-Coder-480B-A35B, card"},
    {"qwen3-vl-235b-a22b", 235'670'022'896, true, 236e9, "Qwen/Qwen3-VL-235B-A22B, weights"},
    {"qwen3-vl-30b-a3b", 31'070'754'032, true, 31.1e9, "Qwen/Qwen3-VL-30B-A3B, weights"},
    {"starcoder2-test", 7'173'923'840, true, 7.17e9, "bigcode/starcoder2-7b, weights"},
    {"step-3.7-flash", 195'832'700'736, false, 196e9,
     "stepfun-ai/Step-3.7-Flash: language backbone of 196B"},
    {"yi-6b", 6'061'035'520, true, 6.06e9, "01-ai/Yi-6B, weights"},
};

struct Refused {
  const char* folder;
  const char* family;
  const char* reason;
};

constexpr Refused kRefused[] = {
    {"deepseek-v4-flash", "deepseek_v4", "sparse attention"},
    {"draft-qwen3-8b-dflash", "qwen3", "speculative drafter"},
    {"gemma-4-26b-a4b", "gemma4", "several feed-forwards in one layer"},
    {"gemma-4-e2b", "gemma4", "embeddings per layer"},
    {"glm-moe-dsa-toy", "glm_moe_dsa", "sparse attention"},
    {"minimax-m3", "minimax_m3", "sparse attention"},
    {"nemotron-3-nano-30b", "nemotron_h", "state-space layers"},
    {"nemotron-3-ultra-550b", "nemotron_h", "state-space layers"},
    {"nemotron-h-56b", "nemotron_h", "state-space layers"},
    {"qwen3.5-35b-a3b", "qwen3_5_moe", "linear-attention layers"},
    {"qwen3.5-397b-a17b", "qwen3_5_moe", "linear-attention layers"},
    {"t5-small-1layer", "t5", "encoder-decoder"},
};

Model ReadFolder(const std::string& folder) { return ReadModel((kCorpus / folder).string()); }

class Corpus : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kCorpus)) {
      GTEST_SKIP() << "the shared corpus is not beside this checkout: " << kCorpus;
    }
  }
};

TEST_F(Corpus, EveryConfigurationIsExpectedHere) {
  std::set<std::string> expected;
  for (const Expected& model : kRead) expected.insert(model.folder);
  for (const Refused& model : kRefused) expected.insert(model.folder);
  std::set<std::string> present;
  for (const auto& entry : fs::directory_iterator(kCorpus)) {
    present.insert(entry.path().filename().string());
  }
  EXPECT_EQ(present, expected);
}

TEST_F(Corpus, ParameterCountsAreExact) {
  for (const Expected& model : kRead) {
    EXPECT_EQ(CountParameters(ReadFolder(model.folder)).total, model.parameters) << model.folder;
  }
}

TEST_F(Corpus, ParameterCountsAreWithinHalfAPercentOfThePublishedOnes) {
  for (const Expected& model : kRead) {
    if (model.published == 0) continue;
    const auto total = static_cast<double>(CountParameters(ReadFolder(model.folder)).total);
    EXPECT_LE(std::abs(total - model.published), 0.005 * model.published)
        << model.folder << ", " << model.source;
  }
}

TEST_F(Corpus, NoFieldOfARealConfigurationIsUnknown) {
  for (const Expected& expected : kRead) {
    for (const FieldNote& note : ReadFolder(expected.folder).unknown) {
      ADD_FAILURE() << expected.folder << ": " << note.path;
    }
  }
}

TEST_F(Corpus, WhatCannotBePricedIsRefusedByNameWithTheReason) {
  for (const Refused& model : kRefused) {
    try {
      ReadFolder(model.folder);
      ADD_FAILURE() << model.folder << " was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << model.folder;
      EXPECT_THAT(error.what(), HasSubstr("'" + std::string(model.family) + "'"));
      EXPECT_THAT(error.what(), HasSubstr(model.reason)) << model.folder;
      EXPECT_GT(error.where().line, 0) << model.folder;
    }
  }
}

// xAI's 314B are Grok-1's layers; Qwen's 0.44B leave the embedding out (Qwen/Qwen3-0.6B, card);
// weight files of models with prediction layers hold a second embedding and head for each.
TEST_F(Corpus, PublishedCountsOfOtherThingsAgreeToo) {
  const ModelParameters grok = CountParameters(ReadFolder("grok-1-reference"));
  EXPECT_NEAR(static_cast<double>(grok.total - grok.embedding), 314e9, 0.005 * 314e9);
  const ModelParameters qwen = CountParameters(ReadFolder("qwen3-0.6b"));
  EXPECT_NEAR(static_cast<double>(qwen.total - qwen.embedding), 0.44e9, 0.005 * 0.44e9);
  const ModelParameters glm = CountParameters(ReadFolder("glm-4.5"));
  EXPECT_EQ(glm.total + glm.mtp + glm.embedding + glm.head, 358'337'791'296);
  const ModelParameters mimo = CountParameters(ReadFolder("mimo-7b-base"));
  EXPECT_EQ(mimo.total + mimo.mtp, 7'833'409'536);  // shares both tables
}

// Each scalar of each file is replaced in turn, by one of several values after another; whatever
// happens must be a model or an Error.
struct Breaker {
  const Node& root;
  int tried = 0;
  int refused = 0;

  void Try() {
    try {
      CountParameters(ReadHuggingFace(root, "broken"));
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
      ++refused;
    }
  }

  void Break(Node& node) {
    constexpr const char* kTexts[] = {"0", "16777215", "-3", "99999999999999999999", "[x"};
    if (node.is_scalar()) {
      const Node before = node;
      node.text = kTexts[tried++ % 5];
      node.quoted = false;
      Try();
      node = before;
    }
    for (Node& item : node.items) Break(item);
    for (auto& [key, value] : node.members) Break(value);
  }
};

TEST_F(Corpus, BrokenValuesNeverCrashTheReader) {
  for (const Expected& model : kRead) {
    Node root = ReadDocument((kCorpus / model.folder / "config.json").string());
    Breaker breaker{root};
    breaker.Break(root);
    EXPECT_GT(breaker.refused, 2) << model.folder;
  }
}

}  // namespace
}  // namespace restow
