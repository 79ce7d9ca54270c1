// Recompute as a dimension, current strategy, misses and explanations: what reports promise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "plan/testing/jobs.h"
#include "restow/plan/planner.h"

namespace restow::plan {
namespace {

using testing::HasSubstr;

void Allow(Job& job, std::vector<Recompute> modes) {
  job.search.recompute.stated = true;
  job.search.recompute.values = std::move(modes);
}

PlanReport PlanTop(const Job& job, int top) {
  SearchOptions options;
  options.top = top;
  options.threads = 1;
  return Plan(job, options);
}

Job SmallJob() {
  Job job = RandomJob(7);
  job.model = DenseModel(4, 256, 8, 8, 512, 1000);
  job.cluster = TestCluster(8, Bytes(2 * kGiB));
  job.search = SearchSpace{};
  job.training = Training{};
  job.training.sequence = 512;
  job.training.global_batch = 16;
  return job;
}

TEST(RecomputeDimension, EveryLayoutIsPricedUnderEveryAllowedModeAndRankedTogether) {
  Job job = SmallJob();
  Allow(job, {Recompute::kOff, Recompute::kSelective, Recompute::kFull});
  const PlanReport together = PlanTop(job, 1 << 20);
  std::size_t alone = 0;
  for (const Recompute mode : {Recompute::kOff, Recompute::kSelective, Recompute::kFull}) {
    Allow(job, {mode});
    alone += PlanTop(job, 1 << 20).ranked.size();
  }
  EXPECT_EQ(together.ranked.size(), alone);
  for (std::size_t i = 1; i < together.ranked.size(); ++i) {
    EXPECT_LE(together.ranked[i - 1].step.value(), together.ranked[i].step.value() * (1 + 1e-8));
  }
}

TEST(RecomputeDimension, AModeLeftOutIsNeverProposedNotEvenForALayerOrAsARemedy) {
  Job job = SmallJob();
  job.cluster.device.memory = Bytes(24 * kMiB);  // nothing fits
  Allow(job, {Recompute::kOff});
  const PlanReport report = PlanTop(job, 10);
  ASSERT_TRUE(report.ranked.empty());
  ASSERT_FALSE(report.nearest_misses.empty());
  for (const NearestMiss& miss : report.nearest_misses) {
    EXPECT_EQ(miss.candidate.recompute.mode, Recompute::kOff);
    EXPECT_THAT(miss.remedy, testing::Not(HasSubstr("recompute")));
    EXPECT_GT(miss.shortfall, Bytes(0));
    EXPECT_FALSE(miss.remedy.empty());
  }
}

TEST(NearestMisses, ARemedyOutsideTheSearchSaysSo) {
  Job job = SmallJob();
  for (Dimension<int>* one : {&job.search.tp, &job.search.pp, &job.search.cp}) {
    one->stated = true;
    one->values = {1};
  }
  job.search.zero.stated = true;
  job.search.zero.values = {0};
  // 16 bytes and more a parameter, unsharded: far over it; tp 8 divides them.
  const PlanReport roomy = PlanTop(job, 1);
  ASSERT_FALSE(roomy.ranked.empty());
  job.search.margin = Bytes(0);
  job.cluster.device.memory = Bytes(roomy.ranked.front().peak.value() / 8);
  const PlanReport report = PlanTop(job, 1);
  ASSERT_TRUE(report.ranked.empty());
  ASSERT_FALSE(report.nearest_misses.empty());
  for (const NearestMiss& miss : report.nearest_misses) {
    if (miss.remedy.find("->") == std::string::npos) continue;
    EXPECT_THAT(miss.remedy,
                testing::AnyOf(HasSubstr("(outside the search)"), HasSubstr("devices and")));
  }
}

TEST(RecomputeDimension, AModeThatDoesNotFitRemovesOnlyItsOwnPairs) {
  Job job = SmallJob();
  Allow(job, {Recompute::kFull});
  const std::size_t full_alone = PlanTop(job, 1 << 20).ranked.size();
  Allow(job, {Recompute::kOff, Recompute::kFull});
  std::size_t full_together = 0;
  for (const Candidate& candidate : PlanTop(job, 1 << 20).ranked) {
    full_together += candidate.recompute.mode == Recompute::kFull ? 1 : 0;
  }
  EXPECT_EQ(full_together, full_alone);
}

TEST(RecomputeDimension, NothingStatedKeepsTheJobsOwnPerLayer) {
  Job job = SmallJob();
  RecomputePlan own;
  own.layers = {Recompute::kFull, Recompute::kOff, Recompute::kOff, Recompute::kSelective};
  job.current = CurrentStrategy{};
  job.current->recompute = own;
  const PlanReport report = PlanTop(job, 20);
  ASSERT_FALSE(report.ranked.empty());
  for (const Candidate& candidate : report.ranked) {
    EXPECT_EQ(candidate.recompute, own);
    int full = 0, off = 0, selective = 0;
    for (const StageRecompute& stage : candidate.stage_recompute) {
      full += stage.full;
      off += stage.off;
      selective += stage.selective;
    }
    EXPECT_EQ(full, 1);
    EXPECT_EQ(off, 2);
    EXPECT_EQ(selective, 1);
  }
}

TEST(RecomputeDimension, AJobThatStatesNoneRunsOff) {
  for (const Candidate& candidate : PlanTop(SmallJob(), 20).ranked) {
    EXPECT_EQ(candidate.recompute, RecomputePlan{});
  }
}

TEST(RecomputeDimension, ForOneLayoutFullKeepsLeastAndOffRunsFastest) {
  const Job job = Llama70B(64);
  OneCandidate one = TheCandidate(job);
  std::vector<Candidate> by_mode;
  for (const Recompute mode : {Recompute::kOff, Recompute::kSelective, Recompute::kFull}) {
    one.recompute.mode = mode;
    by_mode.push_back(Price(job, one).candidate);
  }
  const auto activations = static_cast<std::size_t>(MemoryTerm::kActivations);
  EXPECT_GT(by_mode[0].memory[activations], by_mode[2].memory[activations]);
  EXPECT_LT(by_mode[0].step, by_mode[1].step);
  EXPECT_LT(by_mode[1].step, by_mode[2].step);
}

TEST(RecomputeDimension, AMultimodalModelStatesTheModeOnEverySubmoduleInOrder) {
  Job job = SmallJob();
  Tower tower;
  tower.name = "visual";
  tower.stack = DenseModel(2, 64, 4, 4, 128, 8).stack;
  tower.stack.kinds.front().attention.causal = false;
  tower.patches = 64;
  job.model.towers = {tower};
  job.model.projector_parameters = 1000;
  OneCandidate one = TheCandidate(job);
  one.recompute.mode = Recompute::kSelective;
  const Candidate candidate = Price(job, one).candidate;
  ASSERT_EQ(candidate.submodules.size(), 3u);
  EXPECT_EQ(candidate.submodules[0].name, "visual");
  EXPECT_EQ(candidate.submodules[1].name, "projector");
  EXPECT_EQ(candidate.submodules[2].name, "language_model");
  for (const SubmoduleRecompute& part : candidate.submodules) {
    EXPECT_EQ(part.mode, Recompute::kSelective);
  }
  EXPECT_FALSE(candidate.submodules[0].keeps.empty());
  EXPECT_FALSE(candidate.submodules[2].keeps.empty());
}

TEST(Dimensions, AListNarrowsTheSearchAndCurrentFixesWhatIsLeftOut) {
  Job job = SmallJob();
  job.search.tp.stated = true;
  job.search.tp.values = {2, 4};
  job.current = CurrentStrategy{};
  job.current->pp = 2;
  std::set<int> tp;
  for (const Candidate& candidate : PlanTop(job, 1 << 20).ranked) {
    tp.insert(candidate.layout.tp);
    EXPECT_EQ(candidate.layout.pp, 2);
  }
  EXPECT_EQ(tp, (std::set<int>{2, 4}));
}

TEST(Dimensions, AStatedSpanIsNeverDroppedWithTheShardingItBelongsTo) {
  Job job = SmallJob();
  job.search.zero_span.stated = true;
  job.search.zero_span.values = {3};  // divides no group of eight devices
  const PlanReport report = PlanTop(job, 5);
  EXPECT_TRUE(report.ranked.empty());
  EXPECT_EQ(report.candidates.total, report.candidates.refused);
  job.search.zero_span.values = {2};
  for (const Candidate& candidate : PlanTop(job, 1 << 20).ranked) {
    EXPECT_GT(candidate.layout.zero, 0);
  }
}

TEST(Dimensions, TheExpertGridTilesTheDevices) {
  Job job = DeepSeekV3(64);
  job.search.pp.stated = true;
  job.search.pp.values = {4};
  job.search.ep.stated = true;
  job.search.ep.values = {32};
  const PlanReport report = PlanTop(job, 10);
  const auto grid = std::find_if(report.refused.begin(), report.refused.end(),
                                 [](const Refusal& r) { return r.rule == "expert-grid"; });
  ASSERT_NE(grid, report.refused.end());
  EXPECT_THAT(grid->detail, HasSubstr("does not tile the 16 devices of a stage"));
}

TEST(Current, WhatRunsTodayIsPricedBesideTheAnswer) {
  Job job = Llama70B(64);
  job.current = CurrentStrategy{};
  job.current->tp = 8;
  job.current->pp = 4;
  job.current->micro_batch = 1;
  job.current->recompute = RecomputePlan{Recompute::kFull, {}};
  const PlanReport report = PlanTop(job, 1);
  ASSERT_TRUE(report.current.has_value());
  EXPECT_EQ(report.current->layout.tp, 8);
  EXPECT_EQ(report.current->layout.dp, 2);
  EXPECT_EQ(report.current->recompute.mode, Recompute::kFull);
}

TEST(Price, TermsSumToTheTotals) {
  for (int seed = 1; seed <= 40; ++seed) {
    const PlanReport report = PlanTop(RandomJob(static_cast<std::uint64_t>(seed)), 5);
    for (const Candidate& candidate : report.ranked) {
      Bytes bytes{};
      for (const Bytes term : candidate.memory) bytes += term;
      EXPECT_EQ(bytes, candidate.peak) << "seed " << seed;
      double seconds = 0;
      for (const Seconds term : candidate.time) seconds += term.value();
      EXPECT_NEAR(seconds / candidate.step.value(), 1, 1e-9) << "seed " << seed;
      Bytes worst{};
      for (const StagePeak& stage : candidate.ranks) worst = std::max(worst, stage.peak);
      EXPECT_EQ(worst, candidate.peak);
    }
  }
}

TEST(Explain, NamesTheRuleWithItsNumbersAndTheNearestChangeThatFits) {
  const Job job = SmallJob();
  OneCandidate one = TheCandidate(job);
  one.layout.tp = 8;
  one.layout.sp = false;
  one.layout.dp = 1;
  one.layout.pp = 1;
  one.layout.micro_batch = 3;
  const Explanation explanation = Explain(job, one, {});
  EXPECT_EQ(explanation.verdict, Verdict::kRefused);
  ASSERT_TRUE(explanation.rule.has_value());
  EXPECT_EQ(explanation.rule->rule, "batch");
  EXPECT_THAT(explanation.rule->detail, HasSubstr("3·1 does not divide the global batch of 16"));
  ASSERT_FALSE(explanation.nearest.empty());
  EXPECT_TRUE(explanation.nearest.front().candidate.fits);
}

TEST(Explain, NamesTheTermOverBudget) {
  const Job job = Llama70B(64);
  OneCandidate one = TheCandidate(job);
  one.layout.tp = 8;
  one.layout.sp = true;
  one.layout.dp = 8;
  one.layout.zero = 0;
  one.layout.micro_batches = 64;
  const Explanation explanation = Explain(job, one, {});
  EXPECT_EQ(explanation.verdict, Verdict::kRefused);
  ASSERT_TRUE(explanation.over.has_value());
  // 70.6 G parameters over tp 8, unsharded: 12 bytes of states each are 98.6 GiB of 79.1.
  EXPECT_EQ(explanation.over->first, MemoryTerm::kOptimizer);
  EXPECT_GT(explanation.over->second, Bytes(50 * kGiB));
}

TEST(Explain, TheBestWins) {
  Job job = SmallJob();
  const Candidate best = PlanTop(job, 1).ranked.front();
  EXPECT_EQ(Explain(job, {best.layout, best.recompute}, {}).verdict, Verdict::kWins);
}

TEST(Compare, DifferencesAreTermByTerm) {
  const Job job = SmallJob();
  OneCandidate a = TheCandidate(job), b = a;
  b.recompute.mode = Recompute::kFull;
  const Comparison comparison = Compare(job, a, b);
  Bytes difference{};
  for (const Bytes term : comparison.memory_difference) difference += term;
  EXPECT_EQ(difference, comparison.b.peak - comparison.a.peak);
}

TEST(Export, EveryLayerStandsInExactlyOneStagesPlan) {
  const Job job = SmallJob();
  OneCandidate one = TheCandidate(job);
  one.layout.pp = 2;
  one.layout.vpp = 2;
  one.layout.schedule = Schedule::kInterleaved;
  one.layout.dp = 4;
  one.recompute.mode = Recompute::kFull;
  const auto plans = ExportActivationPlans(job, one, "model.layers.{layer}");
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].regions[0].module, "model.layers.0");
  EXPECT_EQ(plans[0].regions[1].module, "model.layers.2");
  EXPECT_EQ(plans[1].regions[0].module, "model.layers.1");
  EXPECT_EQ(plans[1].regions[1].module, "model.layers.3");
  EXPECT_EQ(plans[0].regions[0].mode, ActivationMode::kRecompute);
  EXPECT_THROW(ExportActivationPlans(job, one, "layers"), Error);
}

TEST(Export, ASelectiveRegionNamesSetsOfOperators) {
  Job job = SmallJob();
  job.training.framework = Framework::kTorch;
  Allow(job, {Recompute::kSelective});
  const OneCandidate one = TheCandidate(job);
  const auto plans = ExportActivationPlans(job, one, "model.layers.{layer}");
  EXPECT_EQ(plans[0].regions[0].mode, ActivationMode::kSelective);
  EXPECT_EQ(plans[0].regions[0].save,
            (std::vector<std::string>{"attention", "every second matmul"}));
}

TEST(Export, WhatNoNameSaysIsRefused) {
  Job job = SmallJob();
  job.training.framework = Framework::kMegatron;
  Allow(job, {Recompute::kSelective});
  const OneCandidate one = TheCandidate(job);
  try {
    ExportActivationPlans(job, one, "model.layers.{layer}");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(error.message().find("recompute=full"), std::string::npos) << error.message();
  }
}

TEST(TheCandidate, AListIsRefusedByNameWhereOneValueIsNeeded) {
  Job job = SmallJob();
  job.search.tp.stated = true;
  job.search.tp.values = {2, 4};
  job.search.tp.where = {"job.yaml", 9, 7};
  try {
    TheCandidate(job);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "job.yaml:9:7: tp is a list; one value is needed here: add tp=VALUE");
  }
}

TEST(CandidateUnder, OpenDimensionsTakeTheBestOfWhatIsLeft) {
  Job job = SmallJob();
  job.search.tp.stated = job.search.tp.automatic = true;
  job.search.pp.stated = true;
  job.search.pp.values = {2};
  const Candidate best = PlanTop(job, 1).ranked.front();
  const OneCandidate one = CandidateUnder(job, {});
  EXPECT_EQ(one.layout, best.layout);
  EXPECT_EQ(one.layout.pp, 2);
  job.search.tp = Dimension<int>{};
  EXPECT_EQ(CandidateUnder(job, {}).layout, TheCandidate(job).layout);
}

}  // namespace
}  // namespace restow::plan
