// Activation plans read back, refused with place and remedy, and matched against a model's modules.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <iterator>
#include <sstream>

#include "io/test_jobs.h"
#include "restow/io/write.h"

namespace restow {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

ActivationRegion Region(const std::string& module, ActivationMode mode) {
  ActivationRegion region;
  region.module = module;
  region.mode = mode;
  return region;
}

ActivationPlan SomePlan() {
  ActivationPlan plan;
  plan.version = "0.1.0";
  plan.job_digest = "0123456789abcdef";
  plan.framework = "torch";
  plan.stage = 1;
  plan.stages = 2;
  ActivationRegion region = Region("model.layers.0", ActivationMode::kSwapRecompute);
  region.save = {"matmul: query", "core attention"};
  region.recompute = {"norm"};
  region.swap = {"matmul: gate"};
  region.min_bytes = Bytes(1 << 20);
  region.tier = "file";
  region.predicted_kept = Bytes(123456789012);
  region.predicted_swapped = Bytes(7);
  region.predicted_recompute = Seconds(0.25);
  plan.regions = {region, Region("model.layers.*", ActivationMode::kRecompute)};
  plan.host_bytes_cap = Bytes(1 << 30);
  plan.window_bytes = Bytes(1 << 24);
  plan.keep_last_region = false;
  return plan;
}

std::string Fault(const std::string& text) {
  const restow::Fault fault = FaultOf([&] { ReadActivationPlan(text, "plan.json"); });
  EXPECT_EQ(fault.code, ErrorCode::kBadInput) << fault.what;
  return fault.what;
}

// The written plan with its first `before` replaced.
std::string With(const std::string& before, const std::string& after) {
  std::string text = ToJson(SomePlan());
  const std::size_t at = text.find(before);
  EXPECT_NE(at, std::string::npos) << before;
  return text.replace(at, before.size(), after);
}

ActivationPlan PlanOf(std::vector<ActivationRegion> regions) {
  ActivationPlan plan = SomePlan();
  plan.regions = std::move(regions);
  return plan;
}

std::string MatchFault(const ActivationPlan& plan, const std::vector<std::string>& names) {
  const restow::Fault fault = FaultOf([&] { MatchModules(plan, names); });
  EXPECT_EQ(fault.code, ErrorCode::kBadInput) << fault.what;
  return fault.what;
}

const std::vector<std::string> kNames = {"model",          "model.embed",    "model.layers",
                                         "model.layers.0", "model.layers.1", "model.layers.0.mlp",
                                         "model.layers.10"};

constexpr const char* kFields =
    "schema version job digest framework stage stages defaults mode regions module save recompute "
    "swap min_bytes tier predicted kept_bytes swapped_bytes recompute_s host_bytes_cap "
    "window_bytes keep_last_region";

std::vector<std::string> Words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

TEST(ReadActivationPlan, EveryValueThatIsWrittenIsReadBack) {
  const std::string text = ToJson(SomePlan());
  const ActivationPlan plan = ReadActivationPlan(text, "plan.json");
  EXPECT_EQ(ToJson(plan), text);
  EXPECT_EQ(plan.stage, 1);
  EXPECT_EQ(plan.framework, "torch");
  ASSERT_EQ(plan.regions.size(), 2u);
  EXPECT_EQ(plan.regions[0].mode, ActivationMode::kSwapRecompute);
  EXPECT_EQ(plan.regions[0].predicted_kept.value(), 123456789012);
  EXPECT_EQ(plan.regions[0].tier, "file");
  EXPECT_EQ(plan.regions[1].mode, ActivationMode::kRecompute);
  EXPECT_FALSE(plan.keep_last_region);
  EXPECT_EQ(plan.window_bytes.value(), 1 << 24);
}

TEST(ReadActivationPlan, EveryModeIsReadByItsName) {
  for (int i = 0; i < 5; ++i) {
    const auto mode = static_cast<ActivationMode>(i);
    const ActivationPlan plan = PlanOf({Region("m", mode)});
    EXPECT_EQ(ReadActivationPlan(ToJson(plan), "plan.json").regions[0].mode, mode);
  }
}

TEST(ReadActivationPlan, AnotherSchemaOrNumberIsRefusedWithTheRemedy) {
  EXPECT_EQ(Fault(With("activation-plan/1", "activation-plan/2")),
            "plan.json:2:13: schema is \"restow.activation-plan/2\"; this version reads "
            "restow.activation-plan/1; make the plan anew with 'restow export JOB --to restow'");
  EXPECT_THAT(Fault(With("activation-plan/1", "price/1")), HasSubstr("schema is"));
  EXPECT_THAT(Fault("{}"), StartsWith("plan.json:1:1: schema is missing; make the plan anew"));
}

TEST(ReadActivationPlan, AnUnknownModeIsRefusedAtItsPlaceWithTheAllowedOnes) {
  EXPECT_THAT(Fault(With("swap+recompute", "swop")),
              HasSubstr("regions[0].mode is \"swop\"; allowed: keep, recompute, selective, swap or "
                        "swap+recompute; did you mean 'swap'?"));
  EXPECT_THAT(Fault(With("\"mode\": \"keep\"", "\"mode\": \"off\"")),
              HasSubstr("defaults.mode is \"off\"; allowed:"));
}

TEST(ReadActivationPlan, EveryMissingFieldIsNamed) {
  for (const std::string& field : Words(kFields)) {
    const std::string key = fmt::format("\"{}\":", field);
    std::string text = ToJson(SomePlan());
    text.replace(text.find(key), key.size(), fmt::format("\"{}\": null, \"was\":", field));
    EXPECT_THAT(Fault(text), HasSubstr(fmt::format("{} is missing; make the plan anew", field)));
  }
}

TEST(ReadActivationPlan, UnknownKeysAreRefusedWhereTheyStand) {
  EXPECT_THAT(Fault(With("\"tier\"", "\"tiers\": 1, \"tier\"")),
              HasSubstr("unknown key 'tiers' in regions[0]; did you mean 'tier'?"));
  EXPECT_THAT(Fault(With("\"stage\"", "\"step\": 1, \"stage\"")), HasSubstr("unknown key 'step'"));
  EXPECT_THAT(Fault(With("\"digest\"", "\"x\": 1, \"digest\"")), HasSubstr("'x' in job"));
}

TEST(ReadActivationPlan, ImpossibleValuesAreRefused) {
  EXPECT_THAT(Fault(With("\"stage\": 1", "\"stage\": 2")), HasSubstr("of 2 stages the last is 1"));
  EXPECT_THAT(Fault(With("\"stages\": 2", "\"stages\": 0")), HasSubstr("stages is 0"));
  EXPECT_THAT(Fault(With("1048576", "-1")), HasSubstr("regions[0].min_bytes is -1; a number of"));
  EXPECT_THAT(Fault(With("1048576", "\"1 MiB\"")), HasSubstr("a whole number is expected"));
  EXPECT_THAT(Fault(With("0.25", "-0.25")), HasSubstr("predicted.recompute_s is -0.25"));
  EXPECT_THAT(Fault(With("0.25", "NaN")), HasSubstr("predicted.recompute_s is NaN"));
  EXPECT_THAT(Fault(With("\"file\"", "\"disk\"")), HasSubstr("allowed: host or file"));
  EXPECT_THAT(Fault(With("model.layers.0", "")), HasSubstr("regions[0].module is \"\""));
  EXPECT_THAT(Fault("[]"), HasSubstr("a map"));
  EXPECT_THAT(Fault("{"), StartsWith("plan.json:"));
}

TEST(MatchModules, StarsStayWithinASegmentAndTwoStarsCross) {
  const auto modules = [](const std::string& pattern) {
    std::vector<std::string> found;
    for (const ModuleMatch& match :
         MatchModules(PlanOf({Region(pattern, ActivationMode::kKeep)}), kNames)) {
      found.push_back(match.module);
    }
    return found;
  };
  EXPECT_THAT(modules("model.layers.*"),
              testing::ElementsAre("model.layers.0", "model.layers.1", "model.layers.10"));
  EXPECT_THAT(modules("**.mlp"), testing::ElementsAre("model.layers.0.mlp"));
  EXPECT_THAT(modules("model.layers.1"), testing::ElementsAre("model.layers.1"));
  EXPECT_THAT(modules("model.*"), testing::ElementsAre("model.embed", "model.layers"));
}

TEST(MatchModules, TheFirstPatternThatMatchesTakesAModule) {
  const ActivationPlan plan = PlanOf({Region("model.layers.1", ActivationMode::kKeep),
                                      Region("model.layers.*", ActivationMode::kSwap),
                                      Region("model.layers.10", ActivationMode::kRecompute)});
  const std::vector<ModuleMatch> matches = MatchModules(plan, kNames);
  ASSERT_EQ(matches.size(), 3u);
  EXPECT_EQ(matches[0].module, "model.layers.0");
  EXPECT_EQ(matches[0].region, 1);
  EXPECT_EQ(matches[1].module, "model.layers.1");
  EXPECT_EQ(matches[1].region, 0);
  EXPECT_EQ(matches[2].module, "model.layers.10");
  EXPECT_EQ(matches[2].region, 1);
}

TEST(MatchModules, APatternThatMatchesNothingNamesThreeModulesNearIt) {
  EXPECT_EQ(MatchFault(PlanOf({Region("model.layers.7", ActivationMode::kKeep)}), kNames),
            "the plan's pattern 'model.layers.7' matches no module of the model, which has "
            "'model.layers.0', 'model.layers.1' and 'model.layers.10'; 'restow export "
            "--modules' states how the model names its layers");
  EXPECT_THAT(MatchFault(PlanOf({Region("layers.0", ActivationMode::kKeep)}), kNames),
              HasSubstr("which has 'model.layers.0', 'model.layers.10'"));
  EXPECT_THAT(MatchFault(PlanOf({Region("x", ActivationMode::kKeep)}), {}),
              HasSubstr("'x' matches nothing: the model has no modules"));
}

TEST(MatchModules, AModuleInsideAnotherIsRefusedUnlessOneIsKept) {
  const auto plan = [](ActivationMode outer, ActivationMode inner) {
    return PlanOf({Region("model.layers.*", outer), Region("**.mlp", inner)});
  };
  EXPECT_EQ(MatchFault(plan(ActivationMode::kSwap, ActivationMode::kRecompute), kNames),
            "the plan matches 'model.layers.0' (swap, by 'model.layers.*') and, inside it, "
            "'model.layers.0.mlp' (recompute, by '**.mlp'); let only one of them be other than "
            "keep");
  EXPECT_EQ(MatchModules(plan(ActivationMode::kKeep, ActivationMode::kSwap), kNames).size(), 4u);
  EXPECT_EQ(MatchModules(plan(ActivationMode::kSwap, ActivationMode::kKeep), kNames).size(), 4u);
  // 'model.layers.1' is no part of 'model.layers.10'.
  EXPECT_EQ(MatchModules(PlanOf({Region("model.layers.*", ActivationMode::kSwap)}), kNames).size(),
            3u);
  EXPECT_THAT(MatchFault(PlanOf({Region("**", ActivationMode::kSwap)}), kNames),
              testing::AllOf(HasSubstr("inside it"), Not(HasSubstr("'model.layers.10'"))));
}

}  // namespace
}  // namespace restow
