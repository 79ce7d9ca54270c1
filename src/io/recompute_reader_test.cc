// docs/planner.md, "Recompute as a dimension": each sentence is a test.
#include <gmock/gmock.h>

#include <vector>

#include "io/test_jobs.h"

namespace restow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr Recompute kOff = Recompute::kOff;
constexpr Recompute kSelective = Recompute::kSelective;
constexpr Recompute kFull = Recompute::kFull;

Dimension<Recompute> InYaml(const std::string& value, Language language = Language::kYaml) {
  const std::string text =
      language == Language::kYaml ? "recompute: " + value + "\n" : "{\"recompute\": " + value + "}";
  const Node root = ParseDocument(text, language, "job");
  return ReadRecomputeDimension(*root.Find("recompute"), "search.recompute");
}

std::string YamlFault(const std::string& value) {
  return FaultOf([&] { InYaml(value); }).what;
}

Dimension<Recompute> Argument(std::string_view text) {
  SearchSpace space;
  ApplyDimension("recompute=" + std::string(text), space);
  return space.recompute;
}

std::string ArgumentFault(std::string_view text) {
  const Fault fault = FaultOf([&] { Argument(text); });
  EXPECT_EQ(fault.code, ErrorCode::kBadInput);
  return fault.what;
}

constexpr const char* kAllowed = "allowed: a mode (off, selective, full), a list of them, or auto";

TEST(RecomputeDimension, AutoAllowsTheThreeModesInTheirOrder) {
  for (const Dimension<Recompute>& d : {InYaml("auto"), InYaml("[auto]"), InYaml(" AUTO "),
                                        InYaml("\"auto\"", Language::kJson), Argument("auto")}) {
    EXPECT_TRUE(d.stated);
    EXPECT_TRUE(d.automatic);
    EXPECT_THAT(d.values, ElementsAre(kOff, kSelective, kFull));
  }
}

TEST(RecomputeDimension, AutoBesideOtherValuesIsRefused) {
  EXPECT_EQ(
      YamlFault("[auto, full]"),
      std::string("job:1:12: search.recompute is [auto, full]; auto stands alone; ") + kAllowed);
  EXPECT_THAT(YamlFault("[off, auto]"), HasSubstr("auto stands alone"));
  EXPECT_THAT(YamlFault("[auto, auto]"), HasSubstr("auto stands alone"));
  EXPECT_THAT(ArgumentFault("off,auto"), HasSubstr("auto stands alone"));
}

TEST(RecomputeDimension, NamesAreTrimmedAndLowerCasedAndNoneMeansOff) {
  EXPECT_THAT(InYaml("\" Full \"").values, ElementsAre(kFull));
  EXPECT_THAT(InYaml("SELECTIVE").values, ElementsAre(kSelective));
  EXPECT_THAT(InYaml("none").values, ElementsAre(kOff));
  EXPECT_THAT(InYaml("[\"None\", full]").values, ElementsAre(kOff, kFull));
  EXPECT_THAT(Argument(" FULL , none ").values, ElementsAre(kFull, kOff));
}

TEST(RecomputeDimension, BareFalseInAnySpellingMeansOff) {
  for (const char* word : {"off", "Off", "OFF", "no", "No", "NO", "false", "False", "FALSE"}) {
    EXPECT_THAT(InYaml(word).values, ElementsAre(kOff)) << word;
    EXPECT_THAT(InYaml("[" + std::string(word) + ", full]").values, ElementsAre(kOff, kFull))
        << word;
    EXPECT_THAT(Argument(word).values, ElementsAre(kOff)) << word;
  }
  EXPECT_THAT(InYaml("false", Language::kJson).values, ElementsAre(kOff));
  EXPECT_THAT(InYaml("[false, \"full\"]", Language::kJson).values, ElementsAre(kOff, kFull));
}

TEST(RecomputeDimension, AQuotedOffIsANameAndAQuotedFalseIsRefused) {
  EXPECT_THAT(InYaml("\"off\"").values, ElementsAre(kOff));
  EXPECT_THAT(InYaml("\"off\"", Language::kJson).values, ElementsAre(kOff));
  EXPECT_EQ(YamlFault("\"false\""),
            std::string("job:1:12: search.recompute is \"false\"; ") + kAllowed);
  EXPECT_THAT(YamlFault("\"no\""), HasSubstr("is \"no\"; allowed"));
  EXPECT_THAT(YamlFault("'False'"), HasSubstr("is \"False\"; allowed"));
  EXPECT_THAT(YamlFault("\"false, full\""), HasSubstr("search.recompute[0] is \"false\""));
  EXPECT_THAT(ArgumentFault("\"false\""), HasSubstr("is \"false\"; allowed"));
}

TEST(RecomputeDimension, TruthIsNoMode) {
  for (const char* word : {"on", "On", "yes", "YES", "true", "True"}) {
    EXPECT_EQ(YamlFault(word),
              std::string("job:1:12: search.recompute is ") + word + "; " + kAllowed);
    EXPECT_THAT(ArgumentFault(word), HasSubstr(kAllowed)) << word;
  }
}

TEST(RecomputeDimension, NumbersEmptyTextsNullsMapsAndNestedListsAreRefused) {
  EXPECT_THAT(YamlFault("0"), HasSubstr("search.recompute is 0; allowed"));
  EXPECT_THAT(YamlFault("1"), HasSubstr("is 1; allowed"));
  EXPECT_THAT(YamlFault("[off, 2.5]"), HasSubstr("search.recompute[1] is 2.5; allowed"));
  EXPECT_THAT(YamlFault("\"\""), HasSubstr("is \"\"; allowed"));
  EXPECT_THAT(YamlFault("\"  \""), HasSubstr("is \"  \"; allowed"));
  EXPECT_EQ(YamlFault("[off, null]"),
            std::string("job:1:18: search.recompute[1] is null; ") + kAllowed);
  EXPECT_THAT(YamlFault("[off, ~]"), HasSubstr("[1] is null"));
  EXPECT_THAT(YamlFault("{mode: full}"), HasSubstr("is {mode: full}; allowed"));
  EXPECT_THAT(YamlFault("[off, [full]]"), HasSubstr("search.recompute[1] is [full]; allowed"));
  EXPECT_THAT(YamlFault("[off, {a: 1}]"), HasSubstr("search.recompute[1] is {a: 1}; allowed"));
}

TEST(RecomputeDimension, EachModeCountsOnceInTheOrderStated) {
  EXPECT_THAT(InYaml("[full, off, none, Full, no]").values, ElementsAre(kFull, kOff));
  EXPECT_THAT(Argument("full,off,full").values, ElementsAre(kFull, kOff));
  EXPECT_FALSE(InYaml("[full, off]").automatic);
}

TEST(RecomputeDimension, AnEmptyListIsRefused) {
  EXPECT_EQ(YamlFault("[]"), std::string("job:1:12: search.recompute is []; ") + kAllowed);
  EXPECT_EQ(ArgumentFault("[]"),
            std::string("argument recompute=[]: recompute is []; ") + kAllowed);
}

TEST(RecomputeDimension, ArgumentsTakeAModeAListOrAuto) {
  EXPECT_THAT(Argument("off,full").values, ElementsAre(kOff, kFull));
  EXPECT_THAT(Argument("[off, full]").values, ElementsAre(kOff, kFull));
  EXPECT_THAT(Argument("['off', \"full\"]").values, ElementsAre(kOff, kFull));
  EXPECT_EQ(ArgumentFault(""), std::string("argument recompute=: recompute is \"\"; ") + kAllowed);
  EXPECT_THAT(ArgumentFault("off,,full"), HasSubstr("recompute[1] is \"\""));
  EXPECT_EQ(ArgumentFault("ful"), std::string("argument recompute=ful: recompute is ful; ") +
                                      kAllowed + "; did you mean 'full'?");
}

TEST(RecomputeDimension, ATypoIsNeverOff) {
  EXPECT_EQ(YamlFault("[off, selectve]"),
            std::string("job:1:18: search.recompute[1] is selectve; ") + kAllowed +
                "; did you mean 'selective'?");
  EXPECT_THAT(YamlFault("offf"), HasSubstr("did you mean 'off'?"));
}

TEST(RecomputeDimension, NothingStatedIsNotSearchedAndTheJobKeepsItsOwn) {
  EXPECT_FALSE(InYaml("null").stated);
  EXPECT_FALSE(InYaml("").stated);
  const Job silent = ReadText(JobText());
  EXPECT_FALSE(silent.search.recompute.stated);
  EXPECT_FALSE(silent.current.has_value());
  const Job stated = ReadText(
      JobText("current: {recompute: [{layers: 0-1, mode: full}, {layers: 2, mode: selective}]}\n"));
  EXPECT_FALSE(stated.search.recompute.stated);
  EXPECT_THAT(stated.current->recompute->layers, ElementsAre(kFull, kFull, kSelective, kOff));
}

TEST(RecomputeDimension, TheArgumentReplacesTheFile) {
  ReadOptions options;
  options.dimensions = {"recompute=full"};
  const Job job = ReadText(JobText("search: {recompute: [off, selective]}\n"), options);
  EXPECT_THAT(job.search.recompute.values, ElementsAre(kFull));
  EXPECT_EQ(ToString(job.search.recompute.where), "argument recompute=full");
}

// ---- Exactly one mode ------------------------------------------------------------------------

Recompute Single(const std::string& value, Language language = Language::kYaml) {
  const std::string text =
      language == Language::kYaml ? "mode: " + value + "\n" : "{\"mode\": " + value + "}";
  const Node root = ParseDocument(text, language, "trainer");
  return ReadSingleRecompute(root.Find("mode"), "activation_checkpoint.mode");
}

std::string SingleFault(const std::string& value) {
  const Fault fault = FaultOf([&] { Single(value); });
  EXPECT_EQ(fault.code, ErrorCode::kBadInput);
  return fault.what;
}

TEST(SingleRecompute, NothingOrNullMeansOff) {
  EXPECT_EQ(ReadSingleRecompute(nullptr, "current.recompute"), kOff);
  EXPECT_EQ(Single("null"), kOff);
  EXPECT_EQ(Single(""), kOff);
}

TEST(SingleRecompute, OneModeOrBareFalseIsRead) {
  EXPECT_EQ(Single("full"), kFull);
  EXPECT_EQ(Single("Selective"), kSelective);
  EXPECT_EQ(Single("off"), kOff);
  EXPECT_EQ(Single("\"off\""), kOff);
  EXPECT_EQ(Single("no"), kOff);
  EXPECT_EQ(Single("none"), kOff);
  EXPECT_EQ(Single("false", Language::kJson), kOff);
}

TEST(SingleRecompute, ListsAutoTruthAndUnknownNamesAreRefusedOfferingSingleModesOnly) {
  for (const char* value : {"[full]", "[off, full]", "[]", "auto", "true", "on", "\"false\"", "1",
                            "{mode: full}", "\"\"", "everything"}) {
    const std::string what = SingleFault(value);
    EXPECT_THAT(what, HasSubstr("allowed: one mode (off, selective or full)")) << value;
    EXPECT_THAT(what, Not(HasSubstr("list"))) << value;
    EXPECT_THAT(what, Not(HasSubstr("or auto"))) << value;
  }
  EXPECT_EQ(
      SingleFault("[full]"),
      "trainer:1:7: activation_checkpoint.mode is [full]; allowed: one mode (off, selective or "
      "full)");
}

TEST(SingleRecompute, ATypoIsNeverOff) {
  EXPECT_EQ(SingleFault("of"),
            "trainer:1:7: activation_checkpoint.mode is of; allowed: one mode (off, selective or "
            "full)");
  EXPECT_THAT(SingleFault("selectiv"), HasSubstr("did you mean 'selective'?"));
}

TEST(CurrentRecompute, EveryModeOfTheListIsReadAsASingleOne) {
  EXPECT_THAT(BadInput(JobText("current: {recompute: [{layers: 0, mode: [full]}]}\n")),
              HasSubstr("job:4:41: current.recompute[0].mode is [full]; allowed: one mode"));
  EXPECT_THAT(BadInput(JobText("current: {recompute: [{layers: 0, mode: auto}]}\n")),
              HasSubstr("mode is auto; allowed: one mode"));
  EXPECT_THAT(BadInput(JobText("current: {recompute: [off, full]}\n")),
              HasSubstr("current.recompute is [off, full]; allowed: one mode"));
  EXPECT_THAT(BadInput(JobText("current: {recompute: auto}\n")),
              HasSubstr("current.recompute is auto; allowed: one mode"));
}

TEST(CurrentRecompute, LayersAreInsideTheModelAndNamedOnce) {
  const auto fault = [](const std::string& layers) {
    return BadInput(JobText("current: {recompute: [{layers: " + layers + ", mode: full}]}\n"));
  };
  EXPECT_THAT(fault("0-4"), HasSubstr("is 0-4; layers from 0 to 3 are expected"));
  EXPECT_THAT(fault("3-1"), HasSubstr("layers from 0 to 3 are expected"));
  EXPECT_THAT(fault("a"), HasSubstr("layers from 0 to 3 are expected"));
  EXPECT_THAT(fault("0-1-2"), HasSubstr("layers from 0 to 3 are expected"));
  EXPECT_THAT(fault("-1"), HasSubstr("layers from 0 to 3 are expected"));
  EXPECT_THAT(fault("[0-1, 1]"), HasSubstr("layer 1 is stated twice"));
  EXPECT_THAT(fault("[0, 0]"), HasSubstr("layer 0 is stated twice"));
}

TEST(RecomputeGranularity, OnlyTheModelWideOneIsAvailable) {
  EXPECT_NO_THROW(ReadText(JobText("search: {granularity: model}\n")));
  for (const char* value : {"stage", "layer"}) {
    const Fault fault = JobFault(JobText("search: {granularity: " + std::string(value) + "}\n"));
    EXPECT_EQ(fault.code, ErrorCode::kUnsupported);
    EXPECT_THAT(fault.what, HasSubstr("not available in this version"));
  }
  EXPECT_THAT(BadInput(JobText("search: {granularity: layers}\n")),
              HasSubstr("did you mean 'layer'?"));
}

}  // namespace
}  // namespace restow
