#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "io/model_reader.h"

namespace restow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Model Read(const std::string& yaml) {
  return ReadInlineModel(ParseDocument(yaml, Language::kYaml, "job.yaml"), "given");
}

std::string Fault(const std::string& yaml) {
  try {
    Read(yaml);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.what();
  }
  return "was read";
}

constexpr const char* kSmall = "layers: 3\nhidden: 64\nheads: 4\nffn: 96\nvocab: 100\n";

// A layer: attention 4*64^2 = 16,384, feed-forward 3*64*96 = 18,432, norms 128: 34,944. Three of
// them, two tables of 6,400 and the final norm 64: 117,696.
TEST(InlineModel, FiveFieldsMakeAModel) {
  const Model model = Read(kSmall);
  EXPECT_EQ(CountParameters(model).total, 117'696);
  EXPECT_EQ(model.name, "given");
  EXPECT_TRUE(model.unknown.empty());
}

TEST(InlineModel, EachRequiredFieldIsNamedWhenItIsMissing) {
  for (const std::string field : {"layers", "hidden", "heads", "ffn", "vocab"}) {
    std::string text = kSmall;
    const std::size_t at = text.find(field);
    text.erase(at, text.find('\n', at) + 1 - at);
    EXPECT_THAT(Fault(text), HasSubstr(field + " is missing")) << field;
  }
}

// A sparse layer: attention 16,384, experts 8*3*64*32 = 49,152, shared 2*3*64*32 = 12,288, router
// 512 + 8, norms 128.
TEST(InlineModel, ExpertsFollowTheDenseHead) {
  const Model model = Read(std::string(kSmall) +
                           "first_dense: 1\nexperts: 8\nexperts_per_token: 2\nexpert_ffn: 32\n"
                           "shared_experts: 2\nrouter_bias: true\nmtp_layers: 1\n");
  EXPECT_THAT(model.stack.order, ElementsAre(0, 1, 1));
  EXPECT_EQ(CountParameters(model.stack.kinds[1]).total(), 78'472);
  EXPECT_EQ(model.mtp_kind, 1);
}

TEST(InlineModel, AWidthOfAllSharedExpertsMayStandForTheirCount) {
  const Model model = Read(std::string(kSmall) +
                           "experts: 8\nexperts_per_token: 2\nexpert_ffn: 32\nshared_ffn: 40\n");
  EXPECT_EQ(model.stack.kinds[0].feed_forward.experts->shared_width, 40);
}

TEST(InlineModel, LatentAttentionGoesByBothSetsOfNames) {
  const std::string base = kSmall;
  const Model ours = Read(base +
                          "mla: {q_rank: 8, kv_rank: 16, nope_dim: 12, rope_dim: 4, "
                          "value_dim: 12}\n");
  const Model theirs = Read(base +
                            "mla: {q_lora_rank: 8, kv_lora_rank: 16, qk_nope_head_dim: 12, "
                            "qk_rope_head_dim: 4, v_head_dim: 12}\n");
  EXPECT_EQ(ours.stack.kinds[0].attention.latent->q_rank, 8);
  EXPECT_EQ(CountParameters(ours).total, CountParameters(theirs).total);
}

TEST(InlineModel, KindsAndTheirOrderSayEverything) {
  const Model model = Read(R"(
layers: 3
vocab: 100
kinds:
  - {name: wide, hidden: 64, heads: 4, ffn: 96, parameters: 1}
  - {name: near, hidden: 64, heads: 4, kv_heads: 2, window: 8, ffn: 96, extra_parameters: 7}
order: [{kind: near, layers: 2}, {kind: wide, layers: 1}]
mtp_layers: 1
mtp_kind: wide
)");
  EXPECT_THAT(model.stack.order, ElementsAre(1, 1, 0));
  EXPECT_EQ(model.stack.kinds[1].attention.window, 8);
  EXPECT_EQ(model.stack.kinds[1].extra_parameters, 7);
  EXPECT_EQ(model.mtp_kind, 0);
  EXPECT_TRUE(model.unknown.empty());
}

TEST(InlineModel, AnOrderThatDisagreesIsRefused) {
  const std::string kinds = "vocab: 9\nkinds: [{name: a, hidden: 8, heads: 2, ffn: 8}]\n";
  EXPECT_THAT(Fault(kinds + "layers: 4\norder: [{kind: a, layers: 3}]\n"),
              HasSubstr("layers is 4; order has 3"));
  EXPECT_THAT(Fault(kinds + "order: [{kind: b, layers: 3}]\n"),
              HasSubstr("order[0].kind is b; the kinds are: a"));
  EXPECT_THAT(Fault(kinds), HasSubstr("order is missing"));
  EXPECT_THAT(Fault(kinds + "order: []\n"), HasSubstr("order is missing"));
}

TEST(InlineModel, TowersStandUnderVisionOrAmongTheSubmodules) {
  const std::string tower =
      "{name: eyes, layers: 2, hidden: 32, heads: 2, ffn: 64, patches: 16, merge: 4}";
  const Model one = Read(std::string(kSmall) + "vision: " + tower + "\n");
  const Model other = Read(std::string(kSmall) + "submodules: [" + tower + "]\n");
  ASSERT_EQ(one.towers.size(), 1u);
  EXPECT_EQ(one.towers[0].patches, 16);
  EXPECT_FALSE(one.towers[0].stack.kinds[0].attention.causal);
  EXPECT_EQ(CountParameters(one).total, CountParameters(other).total);
  EXPECT_TRUE(other.unknown.empty());
}

TEST(InlineModel, WhatAWrittenModelReportsAboutItselfIsSkipped) {
  const Model model = Read(std::string(kSmall) +
                           "schema: restow.model/1\nparameters: 5\nactive_parameters: 5\n"
                           "ignored: [{field: x}]\nunknown: [{field: y}]\nsource: a paper\n");
  EXPECT_TRUE(model.unknown.empty());
  EXPECT_EQ(CountParameters(model).total, 117'696);
}

TEST(InlineModel, UnknownFieldsAreListedWhereverTheyStand) {
  const Model model = Read(std::string(kSmall) +
                           "colour: red\nvision: {layers: 1, hidden: 8, "
                           "heads: 2, ffn: 8, flavour: sweet}\n");
  std::vector<std::string> paths;
  for (const FieldNote& note : model.unknown) paths.push_back(note.path);
  EXPECT_THAT(paths, testing::UnorderedElementsAre("colour", "vision.flavour"));
}

TEST(InlineModel, WrongValuesAreRefusedWithTheirPlace) {
  EXPECT_THAT(Fault("layers: 3\nhidden: 64\nheads: 0\nffn: 96\nvocab: 100\n"),
              HasSubstr("job.yaml:3:8: heads is 0; a whole number from 1"));
  EXPECT_THAT(Fault("layers: 3\nhidden: 64\nheads: 5\nffn: 96\nvocab: 100\n"),
              HasSubstr("heads is 5; it must divide hidden, 64, or head_dim be stated"));
  EXPECT_THAT(Fault(std::string(kSmall) + "kv_heads: 3\n"), HasSubstr("must divide the 4 heads"));
  EXPECT_THAT(Fault(std::string(kSmall) + "tied: maybe\n"), HasSubstr("true or false"));
  EXPECT_THAT(Fault(std::string(kSmall) + "other_parameters: -1\n"), HasSubstr("from 0 to"));
  EXPECT_THAT(Fault(std::string(kSmall) + "experts: 4\nexperts_per_token: 5\nexpert_ffn: 8\n"),
              HasSubstr("at most all 4 experts"));
}

TEST(InlineModel, ADocumentIsRecognisedByItsSchemaOrItsFields) {
  const auto is = [](const char* text) {
    return IsInlineModel(ParseDocument(text, Language::kYaml, "f"));
  };
  EXPECT_TRUE(is("schema: restow.model/1"));
  EXPECT_TRUE(is("layers: 3\nhidden: 64"));
  EXPECT_FALSE(is("model_type: x\nlayers: 3\nhidden: 64"));
  EXPECT_FALSE(is("[1]"));
}

}  // namespace
}  // namespace restow
