// The search against brute force: naive loops over everything, each candidate priced alone.
#include "plan/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "plan/price/candidate.h"
#include "plan/rules/rules.h"
#include "plan/testing/jobs.h"

namespace restow::plan {
namespace {

constexpr int kGeneratedJobs = 300;

template <class T>
bool Allows(const Dimension<T>& dimension, T value) {
  if (!dimension.stated || dimension.automatic) return true;
  return std::find(dimension.values.begin(), dimension.values.end(), value) !=
         dimension.values.end();
}

template <class T>
bool Automatic(const Dimension<T>& dimension) {
  return !dimension.stated || dimension.automatic;
}

auto Key(const Layout& l) {
  return std::make_tuple(l.tp, l.sp, l.cp, l.cp_kind, l.ep, l.etp, l.pp, l.dp, l.micro_batch,
                         l.schedule, l.vpp, l.zero, l.zero_span);
}

// Second implementation of what a search space means: every tuple of small numbers is tried, and
// tuples that mean the same are counted once.
class BruteForce {
 public:
  explicit BruteForce(const Job& job) : job_(job), context_(job) {}

  std::vector<Candidate> Ranked() {
    const int n = job_.cluster.devices;
    for (int tp = 1; tp <= n; ++tp) {
      for (const bool sp : {false, true}) {
        for (int cp = 1; cp <= n; ++cp) {
          for (const CpKind kind : {CpKind::kRing, CpKind::kAllToAll}) {
            for (int pp = 1; pp <= n; ++pp) {
              Layout l;
              l.tp = tp;
              l.sp = sp;
              l.cp = cp;
              l.cp_kind = kind;
              l.pp = pp;
              if (n % (tp * cp * pp) != 0) continue;
              l.dp = n / (tp * cp * pp);
              if (Allows(job_.search.tp, tp) && Allows(job_.search.sp, sp) &&
                  Allows(job_.search.cp, cp) && Allows(job_.search.pp, pp)) {
                Experts(l);
              }
            }
          }
        }
      }
    }
    std::stable_sort(found_.begin(), found_.end(), [&](const Candidate& a, const Candidate& b) {
      return Better(ScoreOf(a), ScoreOf(b));
    });
    return found_;
  }

 private:
  Scored ScoreOf(const Candidate& c) const {
    const auto& modes = job_.search.recompute.values;
    const auto at = std::find(modes.begin(), modes.end(), c.recompute.mode);
    return {c.step, c.peak, c.layout,
            job_.search.recompute.stated ? static_cast<int>(at - modes.begin()) : 0};
  }

  void Experts(Layout l) {
    const bool experts = job_.model.has_experts();
    for (int ep = 1; ep <= (experts ? job_.cluster.devices : 1); ++ep) {
      for (int etp = 1; etp <= (experts ? job_.cluster.devices : 1); ++etp) {
        if (!Allows(job_.search.ep, ep) || !Allows(job_.search.etp, etp)) continue;
        if (Automatic(job_.search.etp) && l.tp % etp != 0) continue;
        l.ep = ep;
        l.etp = etp;
        Batches(l);
      }
    }
  }

  void Batches(Layout l) {
    for (int size = 1; size <= job_.training.global_batch; ++size) {
      if (!Allows(job_.search.micro_batch, size)) continue;
      if (job_.training.global_batch % (size * l.dp) != 0) continue;
      l.micro_batch = size;
      l.micro_batches = job_.training.global_batch / (size * l.dp);
      for (const Schedule schedule : {Schedule::kGpipe, Schedule::k1F1B, Schedule::kInterleaved}) {
        if (!Allows(job_.search.schedule, schedule)) continue;
        if (Automatic(job_.search.schedule) && schedule == Schedule::kGpipe) continue;
        l.schedule = schedule;
        for (int vpp = 1; vpp <= 8; ++vpp) {
          if (!Allows(job_.search.vpp, vpp)) continue;
          l.vpp = vpp;
          States(l);
        }
      }
    }
  }

  void States(Layout l) {
    for (const int zero : {0, 1, 2, 3}) {
      if (!Allows(job_.search.zero, zero)) continue;
      for (int span = 0; span < l.dp * l.cp; ++span) {
        const bool fills = span * l.tp == job_.cluster.levels.front().size && span > 1;
        if (span != 0 && (!fills || zero == 0)) continue;
        l.zero = zero;
        l.zero_span = span;
        Take(l);
      }
    }
  }

  // Twins by meaning: the first stated of the values that make no difference.
  bool IsTwin(const Layout& l) const {
    if (l.cp == 1 && l.cp_kind != FirstOf(job_.search.cp_kind, CpKind::kRing)) return true;
    const bool has_1f1b = Allows(job_.search.schedule, Schedule::k1F1B);
    if (l.schedule == Schedule::kGpipe && has_1f1b && (l.pp == 1 || l.micro_batches == 1))
      return true;
    const bool shards = l.dp * l.cp > 1 || l.tp * l.cp * l.dp > l.ep * l.etp;
    return !shards && zero_seen_.count(WithoutState(l)) != 0;
  }

  template <class T>
  static T FirstOf(const Dimension<T>& dimension, T automatic) {
    return Automatic(dimension) ? automatic : dimension.values.front();
  }

  static std::tuple<int, bool, int, CpKind, int, int, int, int, Schedule, int> WithoutState(
      const Layout& l) {
    return {l.tp, l.sp, l.cp, l.cp_kind, l.ep, l.etp, l.pp, l.micro_batch, l.schedule, l.vpp};
  }

  void Take(const Layout& l) {
    if (!Allows(job_.search.cp_kind, l.cp_kind) && l.cp > 1) return;
    if (CheckRules(job_, l) || IsTwin(l)) return;
    zero_seen_.insert(WithoutState(l));
    for (const RecomputePlan& plan : ResolveChoices(job_).recompute) {
      Candidate candidate = PriceCandidate(context_, l, plan);
      ++candidates_;
      if (candidate.fits) found_.push_back(std::move(candidate));
    }
  }

 public:
  int candidates() const { return candidates_; }

 private:
  const Job& job_;
  const Context context_;
  std::vector<Candidate> found_;
  std::set<std::tuple<int, bool, int, CpKind, int, int, int, int, Schedule, int>> zero_seen_;
  int candidates_ = 0;
};

double Off(double a, double b) { return std::fabs(a - b) / std::max(std::fabs(a), std::fabs(b)); }

PlanReport PlanAll(const Job& job, int top, int threads = 1) {
  SearchOptions options;
  options.top = top;
  options.threads = threads;
  return Plan(job, options);
}

TEST(Search, EqualsBruteForceOnGeneratedJobs) {
  std::int64_t compared = 0;
  for (int seed = 1; seed <= kGeneratedJobs; ++seed) {
    const Job job = RandomJob(static_cast<std::uint64_t>(seed));
    BruteForce brute(job);
    const std::vector<Candidate> expected = brute.Ranked();
    const PlanReport report = PlanAll(job, 1 << 20);
    ASSERT_EQ(report.ranked.size(), expected.size()) << "seed " << seed;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Candidate &got = report.ranked[i], &want = expected[i];
      ASSERT_EQ(Key(got.layout), Key(want.layout)) << "seed " << seed << " rank " << i + 1;
      ASSERT_EQ(got.recompute, want.recompute) << "seed " << seed << " rank " << i + 1;
      ASSERT_EQ(got.peak, want.peak) << "seed " << seed << " rank " << i + 1;
      ASSERT_LE(Off(got.step.value(), want.step.value()), 1e-12) << "seed " << seed;
    }
    compared += static_cast<std::int64_t>(expected.size());
  }
  EXPECT_GT(compared, 10 * kGeneratedJobs) << "the generated jobs must hold something to compare";
  RecordProperty("candidates_compared", static_cast<int>(compared));
}

TEST(Search, BoundsNeverChangeTheAnswer) {
  for (int seed = 1; seed <= kGeneratedJobs; ++seed) {
    const Job job = RandomJob(static_cast<std::uint64_t>(seed));
    const PlanReport all = PlanAll(job, 1 << 20);
    const PlanReport few = PlanAll(job, 3);
    ASSERT_EQ(few.candidates.total, all.candidates.total) << "seed " << seed;
    // What is bounded early is not looked at further, so fewer may be seen not to fit.
    ASSERT_LE(few.candidates.refused, all.candidates.refused) << "seed " << seed;
    ASSERT_EQ(few.ranked.size(), std::min<std::size_t>(3, all.ranked.size()));
    for (std::size_t i = 0; i < few.ranked.size(); ++i) {
      ASSERT_EQ(Key(few.ranked[i].layout), Key(all.ranked[i].layout)) << "seed " << seed;
      ASSERT_EQ(few.ranked[i].recompute, all.ranked[i].recompute) << "seed " << seed;
    }
    // The whole front: what is on it among all, less what is ranked already.
    std::vector<const Candidate*> front;
    Bytes least(INT64_MAX);
    for (const Candidate& candidate : all.ranked) {
      if (candidate.peak >= least) continue;
      least = candidate.peak;
      front.push_back(&candidate);
    }
    ASSERT_EQ(few.pareto.size() + few.leaner.size(), front.size()) << "seed " << seed;
    for (std::size_t i = 0; i < front.size(); ++i) {
      const Candidate& got = i < few.pareto.size()
                                 ? few.ranked[static_cast<std::size_t>(few.pareto[i])]
                                 : few.leaner[i - few.pareto.size()];
      ASSERT_EQ(Key(got.layout), Key(front[i]->layout)) << "seed " << seed;
    }
  }
}

// The tables and the plain path share the pieces but not the way they are put together.
TEST(Search, TablesAgreeWithThePlainPath) {
  const Job job = Llama70B(64);
  const Context context(job);
  SearchOptions options;
  options.top = 200;
  options.threads = 1;
  const SearchResult result = Search(context, ResolveChoices(job), options);
  ASSERT_EQ(result.top.sorted().size(), 200u);
  for (const Scored& scored : result.top.sorted()) {
    const Candidate plain = PriceCandidate(context, scored.layout, {});
    EXPECT_EQ(plain.peak, scored.peak);
    EXPECT_LE(Off(plain.step.value(), scored.step.value()), 1e-12);
  }
}

TEST(Search, AnyNumberOfThreadsGivesTheSameAnswerAndTheSameCounts) {
  Job job = Llama70B(64);
  job.search.recompute.stated = job.search.recompute.automatic = true;
  job.search.recompute.values = {Recompute::kOff, Recompute::kSelective, Recompute::kFull};
  const PlanReport one = PlanAll(job, 10, 1);
  for (const int threads : {2, 8}) {
    const PlanReport many = PlanAll(job, 10, threads);
    EXPECT_EQ(many.candidates.priced, one.candidates.priced);
    EXPECT_EQ(many.candidates.bounded, one.candidates.bounded);
    EXPECT_EQ(many.candidates.refused, one.candidates.refused);
    ASSERT_EQ(many.ranked.size(), one.ranked.size());
    for (std::size_t i = 0; i < one.ranked.size(); ++i) {
      EXPECT_EQ(many.ranked[i].layout, one.ranked[i].layout);
      EXPECT_EQ(many.ranked[i].step, one.ranked[i].step);
      EXPECT_EQ(many.ranked[i].peak, one.ranked[i].peak);
    }
    ASSERT_EQ(many.leaner.size(), one.leaner.size());
  }
}

TEST(Search, CountsAddUp) {
  for (int seed = 1; seed <= 50; ++seed) {
    const PlanReport report = PlanAll(RandomJob(static_cast<std::uint64_t>(seed)), 5);
    EXPECT_EQ(report.candidates.total,
              report.candidates.priced + report.candidates.refused + report.candidates.bounded);
    std::int64_t refused = 0;
    for (const Refusal& refusal : report.refused) refused += refusal.count;
    EXPECT_EQ(refused, report.candidates.refused);
    EXPECT_LE(report.ranked.size(), 5u);
  }
}

TEST(Search, CancelledAtOnceGivesAnIncompleteReport) {
  const std::atomic<bool> cancel{true};
  SearchOptions options;
  options.cancel = &cancel;
  const PlanReport report = Plan(Llama70B(64), options);
  EXPECT_FALSE(report.complete);
}

}  // namespace
}  // namespace restow::plan
