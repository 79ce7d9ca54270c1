#include "restow/io/write.h"

#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "restow/base/error.h"

namespace restow {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Candidate OneCandidate() {
  Candidate c;
  c.rank = 1;
  c.layout.tp = 8;
  c.layout.micro_batches = 4;
  c.peak = Bytes(100);
  c.limit = Bytes(190);
  c.capacity = Bytes(200);
  c.fits = true;
  c.step = Seconds(0.3);
  c.memory[static_cast<std::size_t>(MemoryTerm::kWeights)] = Bytes(60);
  c.memory[static_cast<std::size_t>(MemoryTerm::kLossHead)] = Bytes(40);
  c.time[static_cast<std::size_t>(TimeTerm::kMatmul)] = Seconds(0.1);
  c.time[static_cast<std::size_t>(TimeTerm::kBubble)] = Seconds(0.2);
  return c;
}

PlanReport OnePlan() {
  PlanReport report;
  report.version = "0.1.0";
  report.ranked = {OneCandidate()};
  return report;
}

TEST(WriteJson, ReportsKeepTheOrderOfTheirKeys) {
  const std::string text = ToJson(OnePlan());
  EXPECT_EQ(text.substr(0, text.find("\"job\"")),
            "{\n  \"schema\": \"restow.plan-report/1\",\n  \"version\": \"0.1.0\",\n  ");
  EXPECT_EQ(text.back(), '\n');
  EXPECT_LT(text.find("\"candidates\""), text.find("\"refused\""));
  EXPECT_LT(text.find("\"refused\""), text.find("\"ranked\""));
}

TEST(WriteJson, TermsSumToTheirTotalsAndZeroTermsAreLeftOut) {
  const json candidate = json::parse(ToJson(OnePlan()))["ranked"][0];
  std::int64_t bytes = 0;
  for (const auto& term : candidate["memory"]) bytes += term.get<std::int64_t>();
  EXPECT_EQ(bytes, 100);
  EXPECT_EQ(candidate["memory"].size(), 2u);
  double seconds = 0;
  for (const auto& term : candidate["time"]) seconds += term.get<double>();
  EXPECT_NEAR(seconds, 0.3, 0.3e-9);
  EXPECT_TRUE(candidate["hidden"].is_object());
}

TEST(WriteJson, KeysThatDoNotApplyAreLeftOut) {
  json layout = json::parse(ToJson(OnePlan()))["ranked"][0]["layout"];
  EXPECT_FALSE(layout.contains("cp_kind"));
  EXPECT_FALSE(layout.contains("zero_span"));
  PlanReport report = OnePlan();
  report.ranked[0].rank = 0;
  report.ranked[0].layout.cp = 2;
  report.ranked[0].layout.zero_span = 8;
  const json candidate = json::parse(ToJson(report))["ranked"][0];
  EXPECT_FALSE(candidate.contains("rank"));
  EXPECT_EQ(candidate["layout"]["cp_kind"], "ring");
  EXPECT_EQ(candidate["layout"]["zero_span"], 8);
}

TEST(WriteJson, NoCurrentCandidateIsNull) {
  EXPECT_TRUE(json::parse(ToJson(OnePlan()))["current"].is_null());
}

TEST(WriteJson, APlanByLayerIsWrittenAsRuns) {
  PlanReport report = OnePlan();
  report.ranked[0].recompute.layers = {Recompute::kFull, Recompute::kFull, Recompute::kOff};
  const json recompute = json::parse(ToJson(report))["ranked"][0]["recompute"];
  EXPECT_EQ(recompute["mode"], "per-layer");
  EXPECT_EQ(recompute["layers"],
            json::parse(R"([{"layers": "0-1", "mode": "full"}, {"layers": "2", "mode": "off"}])"));
}

TEST(WriteJson, AFigureThatIsNoNumberIsAnInternalErrorNotNull) {
  PlanReport report = OnePlan();
  report.ranked[0].mfu = std::numeric_limits<double>::quiet_NaN();
  try {
    ToJson(report);
    FAIL() << "a NaN was written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
  }
}

TEST(WriteJson, NamesThatAreNotUtf8DoNotFailTheReport) {
  PlanReport report = OnePlan();
  report.job_name = "job\xFF";
  EXPECT_EQ(json::parse(ToJson(report))["job"]["name"], "job\xEF\xBF\xBD");
}

TEST(WriteJson, AnExplanationWithoutAPriceStillNamesItsCandidate) {
  Explanation e;
  e.layout.tp = 16;
  e.verdict = Verdict::kRefused;
  e.rule = Refusal{"heads", 1, e.layout, {}, "tp 16 does not divide 8 heads", {{"tp", 16}}};
  const json written = json::parse(ToJson(e));
  EXPECT_EQ(written["candidate"]["layout"]["tp"], 16);
  EXPECT_EQ(written["candidate"]["fits"], false);
  EXPECT_EQ(written["rule"], "heads");
  EXPECT_EQ(written["numbers"]["tp"], 16);
}

Model ExpertModel() {
  Model model;
  model.name = "m";
  LayerKind dense;
  dense.name = "dense";
  dense.hidden = 8;
  dense.attention.latent = LatentAttention{4, 2, 2, 2, 2};
  dense.attention.heads = 2;
  dense.feed_forward.width = 32;
  LayerKind moe = dense;
  moe.name = "moe";
  moe.feed_forward.experts = Experts{4, 2, 16, 32, false, false, false};
  model.stack.kinds = {dense, moe};
  model.stack.order = {0, 1, 1};
  model.vocab = 64;
  return model;
}

TEST(WriteModel, GivesTheFamiliarFieldsAndEveryKindOfLayer) {
  const json model = json::parse(ToJson(ExpertModel()));
  EXPECT_EQ(model["schema"], "restow.model/1");
  EXPECT_EQ(model["ffn"], 32);
  EXPECT_EQ(model["experts"], 4);
  EXPECT_EQ(model["shared_experts"], 2);  // 32 wide, 16 each
  EXPECT_EQ(model["first_dense"], 1);
  EXPECT_EQ(model["mla"]["kv_lora_rank"], 2);
  EXPECT_FALSE(model.contains("kv_heads"));
  EXPECT_EQ(model["order"],
            json::parse(R"([{"kind": "dense", "layers": 1}, {"kind": "moe", "layers": 2}])"));
}

TEST(JsonSchema, EveryNameHasASchemaThatStandsAlone) {
  EXPECT_THAT(JsonSchemaNames(),
              ElementsAre("activation-plan", "calibration", "comparison", "device", "explanation",
                          "job", "model", "plan-report", "price", "run", "validation"));
  for (const std::string& name : JsonSchemaNames()) {
    const std::string text = JsonSchema(name);
    const json schema = json::parse(text);
    EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema") << name;
    // Every reference is to a definition inside.
    for (std::size_t at = text.find("\"$ref\": \"#/$defs/"); at != std::string::npos;
         at = text.find("\"$ref\": \"#/$defs/", at + 1)) {
      const std::size_t begin = at + std::string("\"$ref\": \"#/$defs/").size();
      const std::string target = text.substr(begin, text.find('"', begin) - begin);
      EXPECT_TRUE(schema["$defs"].contains(target)) << name << " lacks " << target;
    }
  }
}

TEST(JsonSchema, ListsEveryTermOfMemoryAndTime) {
  const json defs = json::parse(JsonSchema("price"))["$defs"];
  EXPECT_EQ(defs["memory"]["properties"].size(), static_cast<std::size_t>(kMemoryTerms));
  for (int i = 0; i < kMemoryTerms; ++i) {
    EXPECT_TRUE(defs["memory"]["properties"].contains(Name(static_cast<MemoryTerm>(i))));
  }
  EXPECT_EQ(defs["time"]["properties"].size(), static_cast<std::size_t>(kTimeTerms));
  for (int i = 0; i < kTimeTerms; ++i) {
    EXPECT_TRUE(defs["time"]["properties"].contains(Name(static_cast<TimeTerm>(i))));
  }
}

TEST(JsonSchema, AnUnknownNameIsAUsageErrorThatListsTheNames) {
  for (const char* name : {"plan", "common", ""}) {
    try {
      JsonSchema(name);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_THAT(error.message(), HasSubstr("price, run and validation"));
    }
  }
}

}  // namespace
}  // namespace restow
