#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "restow/io/presets.h"
#include "restow/io/read.h"

namespace restow {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Preset {
  const char* name;
  std::int64_t total;
  std::int64_t active;
};

// Dense: all active. The others leave out (experts - experts_per_token) experts a sparse layer.
constexpr Preset kPresets[] = {
    {"deepseek-v2-lite", 15'706'484'224, 2'661'150'208},
    {"deepseek-v3", 671'026'419'200, 37'552'297'472},
    {"gpt-oss-120b", 116'829'156'672, 5'711'982'912},
    {"gpt3-175b", 174'604'259'328, 174'604'259'328},
    {"llama2-13b", 13'015'864'320, 13'015'864'320},
    {"llama2-70b", 68'976'648'192, 68'976'648'192},
    {"llama2-7b", 6'738'415'616, 6'738'415'616},
    {"llama3-70b", 70'553'706'496, 70'553'706'496},
    {"llama3-8b", 8'030'261'248, 8'030'261'248},
    {"llama3.1-405b", 405'853'388'800, 405'853'388'800},
    {"mixtral-8x7b", 46'702'792'704, 12'879'925'248},
    {"qwen2.5-72b", 72'706'203'648, 72'706'203'648},
    {"qwen2.5-7b", 7'615'616'512, 7'615'616'512},
    {"qwen3-0.6b", 596'049'920, 596'049'920},
    {"qwen3-235b-a22b", 235'093'634'560, 22'190'763'520},
    {"qwen3-30b-a3b", 30'532'122'624, 3'353'032'704},
    {"qwen3-vl-30b-a3b", 31'070'754'032, 3'891'664'112},
};

std::string Fault(const std::string& path) {
  try {
    ReadModel(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "was read";
}

// A folder that is removed with the test.
class Folder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("restow-models-") +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = (folder_ / name).string();
    WriteFileText(path, text);
    return path;
  }

  fs::path folder_;
};

constexpr const char* kLlama = R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 64,
 "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4})";

TEST(ModelPresets, EachHasItsExactParameterCountAndNoUnknownField) {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) {
    names.emplace_back(preset.name);
    const Model model = ModelPreset(preset.name);
    EXPECT_EQ(CountParameters(model).total, preset.total) << preset.name;
    EXPECT_EQ(CountParameters(model).active, preset.active) << preset.name;
    EXPECT_TRUE(model.unknown.empty()) << preset.name;
    EXPECT_EQ(model.name, preset.name);
    EXPECT_FALSE(model.family.empty()) << preset.name;
  }
  EXPECT_EQ(ModelPresets(), names);
}

// GPT-3: a layer has attention 4*(12288^2 + 12288) = 604,028,928, feed-forward 2*12288*49152 +
// 49152 + 12288 = 1,208,020,992 and norms 4*12288 = 49,152: 1,812,099,072. 96 layers, tables
// (50257 + 2048)*12288 = 642,723,840 and the final norm 24,576: 174,604,259,328.
TEST(ModelPresets, Gpt3IsCountedByHand) {
  EXPECT_EQ(96LL * 1'812'099'072 + 642'723'840 + 24'576, 174'604'259'328);
  EXPECT_EQ(CountParameters(ModelPreset("gpt3-175b")).total, 174'604'259'328);
}

TEST(ModelPresets, EveryPresetStatesItsSource) {
  for (const Preset& preset : kPresets) {
    const Node document =
        ReadDocument(std::string(RESTOW_SOURCE_DIR "/presets/models/") + preset.name + ".json");
    ASSERT_NE(document.Find("source"), nullptr) << preset.name;
    EXPECT_GT(document.Find("source")->AsString().size(), 10u) << preset.name;
  }
}

TEST(ModelPresets, AnUnknownNameIsRefusedWithTheNearest) {
  EXPECT_THAT(Fault("llama3-7b"), HasSubstr("'llama3-7b' is neither a file nor a model preset"));
  EXPECT_THAT(Fault("llama3-7b"), HasSubstr("did you mean 'llama"));
}

TEST_F(Folder, AModelIsReadFromAFolderOrAFileAndNamedAfterIt) {
  Write("config.json", kLlama);
  const std::string other = Write("mine.json", kLlama);
  EXPECT_EQ(ReadModel(folder_.string()).name, folder_.filename().string());
  EXPECT_EQ(ReadModel((folder_ / "config.json").string()).name, folder_.filename().string());
  EXPECT_EQ(ReadModel(other).name, "mine");
}

TEST_F(Folder, OurOwnFormatIsReadInBothLanguages) {
  const std::string json = Write(
      "a.json", R"({"schema": "restow.model/1", "layers": 3, "hidden": 64, "heads": 4, "ffn": 96,
      "vocab": 100})");
  const std::string yaml =
      Write("b.yaml", "layers: 3\nhidden: 64\nheads: 4\nffn: 96\nvocab: 100\n");
  EXPECT_EQ(CountParameters(ReadModel(json)).total, 117'696);
  EXPECT_EQ(CountParameters(ReadModel(yaml)).total, 117'696);
}

TEST_F(Folder, ConfigurationsOfThreeFormsOfOneModelCountTheSame) {
  const Model preset = ModelPreset("llama3-8b");
  const std::string path = Write("config.json", R"({"model_type": "llama", "vocab_size": 128256,
      "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8})");
  EXPECT_EQ(CountParameters(ReadModel(path)).total, CountParameters(preset).total);
}

TEST_F(Folder, WhatIsNoModelIsRefused) {
  EXPECT_THAT(Fault((folder_ / "absent.json").string()), HasSubstr("no such file"));
  EXPECT_THAT(Fault(folder_.string()), HasSubstr("config.json: no such file"));
  EXPECT_THAT(Fault(Write("list.json", "[1, 2]")), HasSubstr("a map"));
  EXPECT_THAT(Fault(Write("cut.json", "{\"model_type\": ")), HasSubstr("cut.json:1"));
  EXPECT_THAT(Fault(Write("nan.json", R"({"model_type": "llama", "num_hidden_layers": NaN})")),
              HasSubstr("num_hidden_layers is NaN"));
}

}  // namespace
}  // namespace restow
