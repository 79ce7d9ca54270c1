// How fast the planner searches. Checks its answers first, then prints:
//   price      candidates priced per second and core, nothing bounded
//   plain      the same candidates priced one by one without tables, for the ratio
//   deepseek   DeepSeek-V3 on 1,024 devices, every dimension auto under three modes, two threads
//   growth     wall time against the number of candidates
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "plan/price/candidate.h"
#include "plan/search/search.h"
#include "plan/testing/jobs.h"

namespace restow::plan {
namespace {

void EveryMode(Job& job) {
  job.search.recompute.stated = job.search.recompute.automatic = true;
  job.search.recompute.values = {Recompute::kOff, Recompute::kSelective, Recompute::kFull};
}

// Every dimension stated as auto.
Job AllAuto(Job job) {
  SearchSpace& space = job.search;
  for (Dimension<int>* dimension :
       {&space.tp, &space.cp, &space.pp, &space.vpp, &space.ep, &space.etp, &space.dp,
        &space.micro_batch, &space.zero, &space.zero_span}) {
    dimension->stated = dimension->automatic = true;
  }
  space.sp.stated = space.sp.automatic = true;
  space.cp_kind.stated = space.cp_kind.automatic = true;
  space.schedule.stated = space.schedule.automatic = true;
  EveryMode(job);
  return job;
}

SearchResult Run(const Job& job, int threads, bool bound) {
  const Context context(job);
  SearchOptions options;
  options.threads = threads;
  options.bound = bound;
  return Search(context, ResolveChoices(job), options);
}

double PeakMegabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "planner_bench: wrong answer: %s\n", what);
  std::exit(1);
}

// The search agrees with the plain path, with and without bounds, on one thread and on two.
void CheckAnswers() {
  Job job = Llama70B(64);
  EveryMode(job);
  const Context context(job);
  const Choices choices = ResolveChoices(job);
  const SearchResult bounded = Run(job, 2, true), all = Run(job, 1, false);
  Require(bounded.counts.total == all.counts.total, "bounds change the number of candidates");
  Require(bounded.top.sorted().size() == 10, "ten candidates are expected");
  for (std::size_t i = 0; i < bounded.top.sorted().size(); ++i) {
    const Scored& a = bounded.top.sorted()[i];
    const Scored& b = all.top.sorted()[i];
    Require(a.layout == b.layout && a.plan == b.plan, "bounds change the ranking");
    const Candidate plain =
        PriceCandidate(context, a.layout, choices.recompute[static_cast<std::size_t>(a.plan)]);
    Require(plain.peak == a.peak, "tables and plain path disagree on memory");
    Require(std::fabs(plain.step / a.step - 1) < 1e-12, "tables and plain path disagree on time");
  }
  std::fprintf(stderr, "answers checked: search, bounds, threads and plain path agree\n");
}

// A device so large that memory refuses nothing: every candidate is priced, none merely refused.
Job Roomy(Job job) {
  job.cluster.device.memory = Bytes(std::int64_t{1} << 50);
  return job;
}

void BM_price(benchmark::State& state) {
  const Job job = Roomy(AllAuto(DeepSeekV3(256)));
  std::int64_t priced = 0, total = 0;
  for (auto _ : state) {
    const SearchResult result = Run(job, 1, false);
    priced += result.counts.priced;
    total += result.counts.total;
  }
  state.counters["priced_per_s_core"] =
      benchmark::Counter(static_cast<double>(priced), benchmark::Counter::kIsRate);
  state.counters["candidates_per_s_core"] =
      benchmark::Counter(static_cast<double>(total), benchmark::Counter::kIsRate);
}

void BM_price_dense(benchmark::State& state) {
  const Job job = Roomy(AllAuto(Llama70B(256)));
  std::int64_t priced = 0;
  for (auto _ : state) priced += Run(job, 1, false).counts.priced;
  state.counters["priced_per_s_core"] =
      benchmark::Counter(static_cast<double>(priced), benchmark::Counter::kIsRate);
}

void BM_plain(benchmark::State& state) {
  const Job job = AllAuto(DeepSeekV3(256));
  const Context context(job);
  SearchOptions options;
  options.top = 200;
  const SearchResult result = Search(context, ResolveChoices(job), options);
  std::size_t next = 0;
  for (auto _ : state) {
    const Scored& scored = result.top.sorted()[next++ % result.top.sorted().size()];
    benchmark::DoNotOptimize(PriceCandidate(context, scored.layout, {}));
  }
  state.counters["priced_per_s_core"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

void BM_deepseek_1024(benchmark::State& state) {
  const Job job = AllAuto(DeepSeekV3(1024));
  SearchResult result(0);
  for (auto _ : state) result = Run(job, 2, true);
  state.counters["candidates"] = static_cast<double>(result.counts.total);
  state.counters["priced"] = static_cast<double>(result.counts.priced);
  state.counters["bounded"] = static_cast<double>(result.counts.bounded);
  state.counters["peak_rss_MB"] = PeakMegabytes();
}

// Spaces of about 10^3 to 10^7 candidates: DeepSeek-V3 on more and more devices.
void BM_growth(benchmark::State& state) {
  const Job job = AllAuto(DeepSeekV3(static_cast<int>(state.range(0))));
  SearchResult result(0);
  const auto begun = std::chrono::steady_clock::now();
  for (auto _ : state) result = Run(job, 2, true);
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begun;
  const auto total = static_cast<double>(result.counts.total);
  state.counters["candidates"] = total;
  state.counters["ns_per_candidate"] =
      spent.count() / (total * static_cast<double>(state.iterations()));
}

BENCHMARK(BM_price)->Name("price")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_price_dense)->Name("price_dense")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_plain)->Name("plain")->Unit(benchmark::kMicrosecond)->UseRealTime();
BENCHMARK(BM_deepseek_1024)->Name("deepseek_1024")->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_growth)
    ->Name("growth")
    ->RangeMultiplier(4)
    ->Range(1, 16384)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace restow::plan

// planner_bench [FILE]: the figures also as JSON in FILE.
int main(int argc, char** argv) {
  std::vector<std::string> words = {argv[0], "--benchmark_counters_tabular=true"};
  if (argc > 1) {
    words.push_back(std::string("--benchmark_out=") + argv[1]);
    words.push_back("--benchmark_out_format=json");
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  restow::plan::CheckAnswers();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
