#include "restow/report/table.h"

#include <gmock/gmock.h>

#include "report/test_reports.h"
#include "report/text.h"

namespace restow {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const TableStyle kStyle;

std::string WidestLine(const std::string& text) {
  std::string widest;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    if (report::Width(line) > report::Width(widest)) widest = line;
    at = end + 1;
  }
  return widest;
}

TEST(LayoutText, ShowsWhatIsNotOneOrOffInAFixedOrder) {
  Layout layout;
  EXPECT_EQ(LayoutText(layout), "mb1");
  layout = {8, true, 2, CpKind::kAllToAll, 4, 5, Schedule::kInterleaved, 16, 2, 32, 3,
            8, 2,    4, kDefaultOrder};
  EXPECT_EQ(LayoutText(layout), "tp8 sp cp2 all-to-all pp4 vpp5 ep16 etp2 dp32 zero3/8 mb2");
}

TEST(LayoutText, NamesAScheduleOnlyWhenItDoesNotFollow) {
  Layout layout;
  layout.pp = 4;
  EXPECT_EQ(LayoutText(layout), "pp4");
  layout.schedule = Schedule::kGpipe;
  EXPECT_EQ(LayoutText(layout), "pp4 gpipe");
}

TEST(LayoutText, NamesARankOrderOtherThanTheDefault) {
  Layout layout;
  layout.order = {Axis::kTp, Axis::kCp, Axis::kEp, Axis::kPp, Axis::kDp};
  EXPECT_EQ(LayoutText(layout), "tp-cp-ep-pp-dp");
}

TEST(RecomputeText, CountsLayersOfAPlanByLayer) {
  RecomputePlan plan;
  plan.mode = Recompute::kFull;
  EXPECT_EQ(RecomputeText(plan), "full");
  plan.layers = {Recompute::kFull, Recompute::kFull, Recompute::kOff};
  EXPECT_EQ(RecomputeText(plan), "full:2+off:1");
}

TEST(DrawPlan, RanksWithUnitsAndMarksTheParetoFront) {
  const std::string text = DrawPlan(report::MakePlan(), kStyle);
  EXPECT_THAT(text, HasSubstr("#  layout                recompute   step  tokens/s   MFU"));
  // 80 - 70 = 10 GiB of margin.
  EXPECT_THAT(text, HasSubstr("1*  tp8 sp pp4 dp2 zero1  selective  12.00     4,321  51.3  "
                              "70.00  0 backward    10.00"));
  EXPECT_THAT(text, HasSubstr("\n2   tp8"));
}

TEST(DrawPlan, SaysWhatWasSearchedAndWhichRuleRefusedHowMuch) {
  const std::string text = DrawPlan(report::MakePlan(), kStyle);
  EXPECT_THAT(text, HasSubstr("10 candidates"));
  EXPECT_THAT(text, HasSubstr("4 priced, 5 refused by a rule, 1 discarded"));
  EXPECT_THAT(text, HasSubstr("refused   3 heads: tp 16 does not divide 8 heads\n"
                              "          2 layers: pp 3 does not divide 80 layers\n"));
}

TEST(DrawPlan, ComparesTheCurrentSettingWithTheBest) {
  PlanReport report = report::MakePlan();
  report.current = report::MakeCandidate(0, 18.0);
  report.current->peak = Bytes(60 * kGiB);
  // 18 s / 12 s = 1.5; 70 - 60 = 10 GiB.
  EXPECT_THAT(DrawPlan(report, kStyle),
              HasSubstr("the best is 1.50x as fast as today's setting (12.0 s against 18.0 s) and "
                        "peaks 10.0 GiB\n          higher"));
}

TEST(DrawPlan, NamesTheLargestTermsOfTheBestCandidatesPeak) {
  EXPECT_THAT(DrawPlan(report::MakePlan(), kStyle),
              HasSubstr("peak      #1 peaks on rank 0, stage 0 in backward; most of it is "
                        "activations 50.0 GiB and weights\n          20.0 GiB\n"));
}

TEST(DrawPlan, CountsTheDevicesOfALayout) {
  // tp 8 x pp 4 x dp 2
  EXPECT_THAT(DrawPlan(report::MakePlan(), kStyle), HasSubstr("parameters, 64 devices\n"));
}

TEST(DrawPlan, StatesTheModeOfEveryPartOfAMultimodalModel) {
  PlanReport report = report::MakePlan();
  report.ranked[0].submodules = {{"visual", Recompute::kSelective, {"matmul: query", "norm"}},
                                 {"language_model", Recompute::kSelective, {}}};
  EXPECT_THAT(DrawPlan(report, kStyle),
              HasSubstr("recompute visual: selective, keeps matmul: query and norm\n"
                        "          language_model: selective\n"));
}

TEST(DrawPlan, MarksAnInterruptedSearch) {
  PlanReport report = report::MakePlan();
  EXPECT_THAT(DrawPlan(report, kStyle), Not(HasSubstr("INCOMPLETE")));
  report.complete = false;
  EXPECT_THAT(DrawPlan(report, kStyle), HasSubstr("INCOMPLETE"));
}

TEST(DrawPlan, ShowsTheNearestMissesWhenNothingFits) {
  PlanReport report = report::MakePlan();
  report.ranked.clear();
  report.pareto.clear();
  report.nearest_misses = {
      {report::MakeCandidate(0, 12), Bytes(5 * kGiB), "recompute off -> full"}};
  const std::string text = DrawPlan(report, kStyle);
  EXPECT_THAT(text, HasSubstr("Nothing fits. The nearest misses:"));
  EXPECT_THAT(text, HasSubstr("short by"));
  EXPECT_THAT(text, HasSubstr("0 backward       5.00\n"
                              "       would fit with: recompute off -> full\n"));
}

TEST(DrawPlan, SaysSoWhenEveryCandidateBreaksARule) {
  PlanReport report = report::MakePlan();
  report.ranked.clear();
  report.pareto.clear();
  EXPECT_THAT(DrawPlan(report, kStyle), HasSubstr("no candidate passes every rule"));
}

TEST(DrawPlan, StaysWithinAHundredColumnsWhateverTheLayout) {
  PlanReport report = report::MakePlan();
  Candidate& c = report.ranked[0];
  c.layout = {16,
              true,
              16,
              CpKind::kAllToAll,
              16,
              16,
              Schedule::kInterleaved,
              128,
              16,
              128,
              3,
              128,
              16,
              16384,
              {Axis::kTp, Axis::kCp, Axis::kEp, Axis::kPp, Axis::kDp}};
  c.recompute.layers.assign(100, Recompute::kSelective);
  c.recompute.layers[0] = Recompute::kFull;
  c.recompute.layers[1] = Recompute::kOff;
  c.step = Seconds(12345.678);
  c.worst_stage = 15;
  c.worst_phase = Phase::kOptimizerStep;
  report.refused[0].detail = std::string(300, 'x');
  report.ranked[1].selective_note = std::string(150, 'y');
  report.leaner = {c, c};
  const std::string text = DrawPlan(report, kStyle);
  EXPECT_LE(report::Width(WidestLine(text)), 100u) << WidestLine(text);
  EXPECT_THAT(text, HasSubstr("tp-cp-ep-pp-dp"));
}

TEST(DrawPrice, ShowsTermsWithTheirSharesAndCompressesEqualStages) {
  PriceReport price;
  price.model = report::MakeModel();
  price.candidate = report::MakeCandidate(0, 12.0);
  const std::string text = DrawPrice(price, kStyle);
  // 20 and 50 of 70 GiB are 28.6 % and 71.4 %.
  EXPECT_THAT(text, HasSubstr("weights             20.00   28.6"));
  EXPECT_THAT(text, HasSubstr("activations         50.00   71.4"));
  EXPECT_THAT(text, HasSubstr("matmul             9.00   75.0"));
  EXPECT_THAT(text, HasSubstr("data_parallel      0.00    0.0    0.50"));
  EXPECT_THAT(text, HasSubstr("0-2    70.00  backward              6.00\n"
                              "3      60.00  loss backward        16.00\n"));
  EXPECT_THAT(text, HasSubstr("yes, 6.00 GiB below the limit"));
}

TEST(DrawPrice, SaysByHowMuchItDoesNotFit) {
  PriceReport price;
  price.model = report::MakeModel();
  price.candidate = report::MakeCandidate(0, 12.0);
  price.candidate.peak = Bytes(86 * kGiB);
  price.candidate.fits = false;
  EXPECT_THAT(DrawPrice(price, kStyle), HasSubstr("NO, 10.0 GiB above the limit"));
}

TEST(DrawExplanation, QuotesTheRuleWithItsNumbers) {
  Explanation e;
  e.verdict = Verdict::kRefused;
  e.rule = Refusal{"heads", 1, {}, {}, "tp 16 does not divide 8 heads", {{"tp", 16}, {"heads", 8}}};
  e.nearest = {{"tp 16 -> 8", report::MakeCandidate(0, 12)}};
  const std::string text = DrawExplanation(e, kStyle);
  EXPECT_THAT(text,
              HasSubstr("rule      heads: tp 16 does not divide 8 heads (tp 16 and heads 8)"));
  EXPECT_THAT(text, HasSubstr("tp 16 -> 8"));
}

TEST(DrawExplanation, NamesTheLargestTermOverTheLimit) {
  Explanation e;
  e.candidate = report::MakeCandidate(0, 12);
  e.verdict = Verdict::kRefused;
  e.over = std::make_pair(MemoryTerm::kActivations, Bytes(3 * kGiB));
  EXPECT_THAT(DrawExplanation(e, kStyle),
              HasSubstr("3.00 GiB over the limit; the largest term is activations with 50.0 GiB"));
}

TEST(DrawComparison, SetsTermsBesideOneAnotherWithTheirDifference) {
  Comparison c;
  c.a = report::MakeCandidate(1, 12);
  c.b = report::MakeCandidate(2, 18);
  c.a_name = "rank 1";
  for (std::size_t i = 0; i < kTimeTerms; ++i) c.time_difference[i] = c.b.time[i] - c.a.time[i];
  const std::string text = DrawComparison(c, kStyle);
  EXPECT_THAT(text, HasSubstr("A is 1.50x as fast as B; step +6.00 s, peak 0"));
  EXPECT_THAT(text, HasSubstr("matmul   9.00  13.50  +4.50"));
  EXPECT_THAT(text, HasSubstr("A         rank 1: tp8 sp pp4 dp2 zero1"));
}

TEST(DrawModel, ShowsExactParametersWithSeparators) {
  // One layer: q 8*8, k and v 8*4 each, o 8*8 (192); gated feed-forward 3*8*16 (384); two norms of
  // 8 (16): 592. Two layers, tables 2*8*32 = 512 and the final norm 8: 1,704.
  const std::string text = DrawModel(report::MakeModel(), kStyle);
  EXPECT_THAT(text, HasSubstr("parameters        1,704"));
  EXPECT_THAT(text, HasSubstr("2 x dense"));
  EXPECT_THAT(text, HasSubstr("592 parameters each"));
  EXPECT_THAT(text, HasSubstr("unknown fields    none"));
}

TEST(DrawCandidate, IsThePriceWithoutTheJobAroundIt) {
  PriceReport price;
  price.candidate = report::MakePlan().ranked.front();
  const std::string text = DrawCandidate(price.candidate, {});
  const std::string label = "rank      1\n";
  ASSERT_EQ(text.substr(0, label.size()), label);
  EXPECT_THAT(DrawPrice(price, {}), HasSubstr(text.substr(label.size())));
  price.candidate.rank = 0;
  EXPECT_EQ(DrawCandidate(price.candidate, {}), text.substr(label.size()));
}

TEST(PlanCsv, HasAHeaderWithUnitsAndARowPerRankedCandidate) {
  const std::string csv = PlanCsv(report::MakePlan());
  EXPECT_EQ(csv.substr(0, csv.find("tp")), "rank,");
  for (const char* column : {",step_s,", ",peak_bytes,", ",mfu_pct,", ",memory_weights_bytes,"}) {
    EXPECT_THAT(csv, HasSubstr(column));
  }
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  EXPECT_THAT(csv,
              HasSubstr("\r\n1,8,true,1,,4,1,1f1b,1,1,2,1,0,1,256,tp-cp-ep-dp-pp,selective,true,"
                        "12,4321.4,51.26,75161927680,"));
}

TEST(PlanCsv, KeepsItsHeaderWhenNothingIsRanked) {
  const std::string csv = PlanCsv(PlanReport{});
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1);
}

TEST(PriceCsv, KeepsTheEmptyFieldOfACandidateWithoutARank) {
  PriceReport price;
  price.candidate = report::MakePlan().ranked.front();
  price.candidate.rank = 0;
  const std::string csv = PriceCsv(price);
  const std::string row = csv.substr(csv.find('\n') + 1);
  EXPECT_EQ(row.front(), ',');
  EXPECT_EQ(std::count(csv.begin(), csv.end(), ','), 2 * std::count(row.begin(), row.end(), ','));
}

TEST(ExplanationCsv, QuotesFieldsThatHoldCommas) {
  Explanation e;
  e.nearest = {{"pp 1 -> 2, recompute off -> \"full\"", report::MakeCandidate(0, 1)}};
  EXPECT_THAT(ExplanationCsv(e), HasSubstr("\"pp 1 -> 2, recompute off -> \"\"full\"\"\",,8,"));
}

}  // namespace
}  // namespace restow
