#include "plan/search/search.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "plan/price/candidate.h"
#include "plan/search/tables.h"
#include "plan/space/enumerate.h"

namespace restow::plan {
namespace {

constexpr int kMisses = 5;
// Rounds grow so that the first units already have something to beat.
constexpr std::size_t kFirstRound = 8;
constexpr std::size_t kLargestRound = 128;

// The first example stays.
void Merge(const Refusal& part, Refusal& into) {
  const std::int64_t count = into.count + part.count;
  if (into.count == 0) into = part;
  into.count = count;
}

void Merge(const SearchResult& part, SearchResult& into) {
  into.counts.priced += part.counts.priced;
  into.counts.bounded += part.counts.bounded;
  into.counts.refused += part.counts.refused;
  for (std::size_t r = 0; r < into.refused.size(); ++r) Merge(part.refused[r], into.refused[r]);
  into.top.Merge(part.top);
  into.front.Merge(part.front);
  into.misses.Merge(part.misses);
}

// Counts refusals; each stands for all recompute plans of its (partial) layout.
class Counter : public LayoutVisitor {
 public:
  Counter(const Context& context, const Choices& choices, SearchResult& result)
      : context_(context), choices_(choices), result_(result) {}

  void Refuse(const Rule& rule, const Layout& layout) override {
    const auto plans = static_cast<std::int64_t>(choices_.recompute.size());
    result_.counts.refused += plans;
    Refusal& refusal = result_.refused[static_cast<std::size_t>(&rule - Rules().data())];
    if (refusal.count == 0) {
      refusal = MakeRefusal(rule, context_.job, layout);
      refusal.count = 0;
      refusal.example_recompute = choices_.recompute.front();
    }
    refusal.count += plans;
  }
  void Visit(const Layout&, const std::vector<StateChoice>&) override {}

 protected:
  const Context& context_;
  const Choices& choices_;
  SearchResult& result_;
};

// Prices the layouts of one unit.
class UnitSearch : public Counter {
 public:
  UnitSearch(const Context& context, const Choices& choices, const SearchResult& before, bool bound,
             Tables& tables, SearchResult& result)
      : Counter(context, choices, result),
        before_(before),
        bound_(bound),
        tables_(tables),
        limit_(MemoryLimit(context.job)) {}

  void Visit(const Layout& layout, const std::vector<StateChoice>& states) override {
    ShapeCosts& shape = tables_.Shape(layout);
    const SplitClasses& split = tables_.Split(layout.pp, layout.vpp);
    const ClassParameters& parameters = tables_.Parameters(layout);
    PriceClassStates(layout, shape, parameters, states);
    for (int plan = 0; plan < static_cast<int>(choices_.recompute.size()); ++plan) {
      VisitPlan(layout, states, shape, split, parameters, plan);
    }
  }

 private:
  // Everything of a stage's peak that no recompute plan changes.
  void PriceClassStates(Layout layout, const ShapeCosts& shape, const ClassParameters& parameters,
                        const std::vector<StateChoice>& states) {
    const std::size_t classes = parameters.of_class.size();
    extras_.resize(classes);
    states_.resize(classes * states.size());
    for (std::size_t c = 0; c < classes; ++c) {
      extras_[c] = PriceExtras(context_.software, parameters.of_class[c], shape.shape);
      for (std::size_t s = 0; s < states.size(); ++s) {
        layout.zero = states[s].zero;
        layout.zero_span = states[s].span;
        states_[s * classes + c] = PriceStates(context_.software, parameters.of_class[c], layout);
      }
    }
  }

  Bytes PeakOf(const std::vector<Bytes>& activations, std::size_t state) const {
    Bytes peak{};
    const std::size_t classes = extras_.size();
    for (std::size_t c = 0; c < classes; ++c) {
      peak = std::max(peak, StagePeakBytes(context_.software, activations[c],
                                           states_[state * classes + c], extras_[c]));
    }
    return peak;
  }

  // From cheap to dear: a first bound on memory, a bound on time, then what the stages hold.
  void VisitPlan(const Layout& layout, const std::vector<StateChoice>& states, ShapeCosts& shape,
                 const SplitClasses& split, const ClassParameters& parameters, int plan) {
    activations_.assign(extras_.size(), Bytes(0));
    activations_.front() = tables_.LeastActivations(layout, shape, split, plan);
    Bytes least = PricePeaks(activations_, states.size());
    if (least > limit_ && AllMissBy(least)) return RefuseAll(layout, states, plan, least);
    const StageSeconds stages = tables_.Stages(shape, split, plan);
    const Seconds bound = StepLowerBound(context_.machine, layout, stages, parameters.traffic);
    if (CannotWin(bound, least)) {
      result_.counts.bounded += static_cast<std::int64_t>(states.size());
      return;
    }
    // What the first stage of each class holds bounds from below what the worst one does.
    std::vector<Bytes>& activations = tables_.FirstActivations(layout, shape, split, plan);
    least = PricePeaks(activations, states.size());
    if (least > limit_ && AllMissBy(least)) return RefuseAll(layout, states, plan, least);
    if (CannotWin(bound, least)) {
      result_.counts.bounded += static_cast<std::int64_t>(states.size());
      return;
    }
    tables_.AddOtherStages(layout, split, activations);
    PricePeaks(activations, states.size());
    Scored scored;
    scored.layout = layout;
    scored.plan = plan;
    for (std::size_t s = 0; s < states.size(); ++s) {
      if (peaks_[s] > limit_) {
        RefuseMemory(scored, states[s], peaks_[s]);
      } else {
        PriceState(scored, states[s], peaks_[s], stages, parameters.traffic);
      }
    }
  }

  // At least `peak` under every state.
  void RefuseAll(const Layout& layout, const std::vector<StateChoice>& states, int plan,
                 Bytes peak) {
    Scored scored;
    scored.layout = layout;
    scored.plan = plan;
    for (const StateChoice& state : states) RefuseMemory(scored, state, peak);
  }

  // Peaks of all states into peaks_; the smallest.
  Bytes PricePeaks(const std::vector<Bytes>& activations, std::size_t states) {
    peaks_.resize(states);
    Bytes least(INT64_MAX);
    for (std::size_t s = 0; s < states; ++s) {
      peaks_[s] = PeakOf(activations, s);
      least = std::min(least, peaks_[s]);
    }
    return least;
  }

  // Nearest misses need exact peaks; the rest only need to be counted.
  bool AllMissBy(Bytes least) const {
    return result_.misses.Excludes(least) || before_.misses.Excludes(least);
  }

  // A bound a hair below the arithmetic's own noise, so that rounding never prunes a winner.
  bool CannotWin(Seconds bound, Bytes least) const {
    if (!bound_ || least > limit_) return false;
    const Seconds step = bound * (1 - 1e-9);
    if (!before_.top.Excludes(step) && !result_.top.Excludes(step)) return false;
    return before_.front.Beats(step, least) || result_.front.Beats(step, least);
  }

  void PriceState(Scored& scored, const StateChoice& state, Bytes peak, const StageSeconds& stages,
                  const StageTraffic& traffic) {
    scored.layout.zero = state.zero;
    scored.layout.zero_span = state.span;
    scored.peak = peak;
    scored.step = StepTotal(context_.machine, scored.layout, stages, traffic);
    ++result_.counts.priced;
    result_.top.Offer(scored);
    result_.front.Offer(scored);
  }

  void RefuseMemory(Scored& scored, const StateChoice& state, Bytes peak) {
    ++result_.counts.refused;
    scored.layout.zero = state.zero;
    scored.layout.zero_span = state.span;
    scored.peak = peak;
    scored.step = Seconds(0);
    if (!result_.misses.Excludes(peak)) result_.misses.Offer(scored);
    Refusal& refusal = result_.refused.back();
    if (refusal.count++ > 0) return;
    refusal.rule = kMemoryRule;
    refusal.example = scored.layout;
    refusal.example_recompute = choices_.recompute[static_cast<std::size_t>(scored.plan)];
    refusal.numbers = {{"peak_bytes", peak.value()}, {"limit_bytes", limit_.value()}};
  }

  const SearchResult& before_;
  const bool bound_;
  Tables& tables_;
  const Bytes limit_;
  std::vector<ExtraBytes> extras_;  // per class
  std::vector<StateBytes> states_;  // per state and class
  std::vector<Bytes> peaks_;        // per state
  std::vector<Bytes> activations_;  // per class: a first bound
};

int ThreadsFor(const SearchOptions& options) {
  if (options.threads > 0) return options.threads;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

// Runs the units of one round on the workers, each into its own result.
class Round {
 public:
  Round(const Context& context, const Choices& choices, const SearchResult& before,
        const SearchUnit* units, std::vector<SearchResult>& results, const SearchOptions& options)
      : context_(context),
        choices_(choices),
        before_(before),
        units_(units),
        results_(results),
        options_(options) {}

  void Run(std::vector<Tables>& tables) {
    std::vector<std::thread> helpers;
    const std::size_t workers = std::min(tables.size(), results_.size());
    for (std::size_t t = 1; t < workers; ++t) {
      helpers.emplace_back([this, &tables, t] { Work(tables[t]); });
    }
    Work(tables[0]);
    for (std::thread& helper : helpers) helper.join();
    if (fault_) std::rethrow_exception(fault_);
  }

  bool cancelled() const {
    return options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed);
  }

 private:
  void Work(Tables& tables) {
    try {
      while (!cancelled()) {
        const std::size_t unit = next_.fetch_add(1, std::memory_order_relaxed);
        if (unit >= results_.size()) return;
        tables.StartUnit();
        UnitSearch search(context_, choices_, before_, options_.bound, tables, results_[unit]);
        EnumerateUnit(context_.job, choices_, units_[unit], search);
      }
    } catch (...) {
      if (!failed_.exchange(true)) fault_ = std::current_exception();
    }
  }

  const Context& context_;
  const Choices& choices_;
  const SearchResult& before_;
  const SearchUnit* units_;
  std::vector<SearchResult>& results_;
  const SearchOptions& options_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr fault_;
};

void Report(const SearchOptions& options, const SearchResult& result, std::size_t done,
            std::size_t units) {
  if (!options.progress) return;
  SearchProgress progress;
  progress.done = static_cast<std::int64_t>(done);
  progress.units = static_cast<std::int64_t>(units);
  progress.candidates = result.counts.priced + result.counts.refused + result.counts.bounded;
  progress.fitting = result.counts.priced + result.counts.bounded;
  progress.best = result.top.best();
  options.progress(progress);
}

}  // namespace

SearchResult::SearchResult(int top_size)
    : refused(Rules().size() + 1), top(top_size), misses(kMisses) {}

SearchResult Search(const Context& context, const Choices& choices, const SearchOptions& options) {
  SearchResult result(options.top);
  Counter counter(context, choices, result);
  const std::vector<SearchUnit> units = EnumerateUnits(context.job, choices, counter);
  std::vector<Tables> tables;
  const int threads = ThreadsFor(options);
  for (int t = 0; t < threads; ++t) tables.emplace_back(context, choices.recompute);
  std::size_t size = kFirstRound;
  for (std::size_t done = 0; done < units.size(); size = std::min(size * 2, kLargestRound)) {
    const std::size_t count = std::min(size, units.size() - done);
    std::vector<SearchResult> parts(count, SearchResult(options.top));
    Round round(context, choices, result, units.data() + done, parts, options);
    round.Run(tables);
    for (const SearchResult& part : parts) Merge(part, result);
    done += count;
    result.complete = !round.cancelled();
    Report(options, result, done, units.size());
    if (!result.complete) break;
  }
  result.counts.total = result.counts.priced + result.counts.refused + result.counts.bounded;
  return result;
}

}  // namespace restow::plan
