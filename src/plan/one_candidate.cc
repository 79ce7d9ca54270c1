// From what a job states to the one candidate it means.
#include <fmt/format.h>

#include "plan/search/search.h"
#include "plan/space/choices.h"
#include "restow/plan/planner.h"

namespace restow {
namespace {

using plan::Choice;

// Megatron-like frameworks keep a distributed optimizer; torch ones shard everything.
int DefaultZero(Framework framework) {
  switch (framework) {
    case Framework::kTorchtitan:
    case Framework::kTorch:
    case Framework::kHyperParallel:
      return 3;
    case Framework::kMegatron:
    case Framework::kDeepSpeed:
    case Framework::kMindSpeed:
    case Framework::kMindFormers:
      return 1;
  }
  return 1;
}

// A dimension's one value; `fallback` where the job says nothing about it at all.
template <class T>
T Take(const char* name, const Dimension<T>& stated, const std::optional<T>& current, T fallback) {
  if (stated.stated) {
    if (!stated.one_value()) {
      ThrowBadInput(fmt::format("{} is {}; one value is needed here: add {}=VALUE", name,
                                stated.automatic ? "auto" : "a list", name),
                    stated.where);
    }
    return stated.values.front();
  }
  return current.value_or(fallback);
}

int ReplicasLeft(const Job& job, const Layout& l) {
  const std::int64_t used = static_cast<std::int64_t>(l.tp) * l.cp * l.pp;
  const std::int64_t left = used > 0 ? job.cluster.devices / used : 0;
  return left > 0 ? static_cast<int>(left) : 1;
}

// Fills what follows from the rest.
void Finish(const Job& job, Layout& l) {
  const std::int64_t per_step = static_cast<std::int64_t>(l.dp) * l.micro_batch;
  l.micro_batches =
      static_cast<int>(std::max<std::int64_t>(1, job.training.global_batch / per_step));
  if (l.zero > 0 && l.zero_span == l.dp * l.cp) l.zero_span = 0;
}

}  // namespace

OneCandidate TheCandidate(const Job& job) {
  const SearchSpace& s = job.search;
  const CurrentStrategy c = job.current.value_or(CurrentStrategy{});
  OneCandidate one;
  Layout& l = one.layout;
  l.order = Take("order", s.order, c.order, kDefaultOrder);
  l.tp = Take("tp", s.tp, c.tp, 1);
  l.sp = Take("sp", s.sp, c.sp, l.tp > 1);
  l.cp = Take("cp", s.cp, c.cp, 1);
  l.cp_kind = Take("cp_kind", s.cp_kind, c.cp_kind, CpKind::kRing);
  l.pp = Take("pp", s.pp, c.pp, 1);
  l.vpp = Take("vpp", s.vpp, c.vpp, 1);
  l.schedule = Take("schedule", s.schedule, c.schedule,
                    l.vpp > 1 ? Schedule::kInterleaved : Schedule::k1F1B);
  l.ep = Take("ep", s.ep, c.ep, 1);
  l.etp = Take("etp", s.etp, c.etp, 1);
  // The replicas are what the other degrees leave, so today's count does not outlive a change of
  // them.
  l.dp = s.dp.stated ? Take("dp", s.dp, c.dp, 1) : ReplicasLeft(job, l);
  l.micro_batch = Take("micro_batch", s.micro_batch, c.micro_batch, 1);
  l.zero = Take("zero", s.zero, c.zero, DefaultZero(job.training.framework));
  l.zero_span = Take("zero_span", s.zero_span, c.zero_span, 0);
  if (s.recompute.stated) {
    one.recompute.mode =
        Take("recompute", s.recompute, std::optional<Recompute>(), Recompute::kOff);
  } else {
    one.recompute = plan::OwnRecompute(job);
  }
  Finish(job, l);
  return one;
}

namespace {

template <class T>
bool IsOpen(const Dimension<T>& dimension) {
  return dimension.stated && !dimension.one_value();
}

bool LeavesSomethingOpen(const SearchSpace& s) {
  return IsOpen(s.order) || IsOpen(s.tp) || IsOpen(s.sp) || IsOpen(s.cp) || IsOpen(s.cp_kind) ||
         IsOpen(s.pp) || IsOpen(s.vpp) || IsOpen(s.schedule) || IsOpen(s.ep) || IsOpen(s.etp) ||
         IsOpen(s.dp) || IsOpen(s.micro_batch) || IsOpen(s.zero) || IsOpen(s.zero_span) ||
         IsOpen(s.recompute);
}

// Open dimensions as if nothing were said about them.
template <class T>
void Forget(Dimension<T>& dimension) {
  if (IsOpen(dimension)) dimension = Dimension<T>{};
}

}  // namespace

OneCandidate CandidateUnder(const Job& job, const SearchOptions& options) {
  if (!LeavesSomethingOpen(job.search)) return TheCandidate(job);
  const plan::Context context(job);
  const plan::Choices choices = plan::ResolveChoices(job);
  SearchOptions one = options;
  one.top = 1;
  const plan::SearchResult result = plan::Search(context, choices, one);
  const auto& best = result.top.sorted().empty() ? result.misses.sorted() : result.top.sorted();
  if (!best.empty()) {
    return {best.front().layout, choices.recompute[static_cast<std::size_t>(best.front().plan)]};
  }
  // Rules refuse all of it: the job's own values show which.
  Job closed = job;
  SearchSpace& s = closed.search;
  Forget(s.order), Forget(s.tp), Forget(s.sp), Forget(s.cp), Forget(s.cp_kind), Forget(s.pp);
  Forget(s.vpp), Forget(s.schedule), Forget(s.ep), Forget(s.etp), Forget(s.dp);
  Forget(s.micro_batch), Forget(s.zero), Forget(s.zero_span), Forget(s.recompute);
  return TheCandidate(closed);
}

OneCandidate RankedCandidate(const PlanReport& report, int rank) {
  if (rank < 1 || static_cast<std::size_t>(rank) > report.ranked.size()) {
    ThrowBadInput(fmt::format("there is no rank {}: the plan ranks {} candidate{}", rank,
                              report.ranked.size(), report.ranked.size() == 1 ? "" : "s"));
  }
  const Candidate& candidate = report.ranked[static_cast<std::size_t>(rank - 1)];
  return {candidate.layout, candidate.recompute};
}

OneCandidate CurrentCandidate(const Job& job) {
  if (!job.current) {
    ThrowBadInput(
        "the job does not say what it runs with today: add `current: {tp: ..., pp: ...}`");
  }
  Job today = job;
  today.search = SearchSpace{};
  OneCandidate one = TheCandidate(today);
  if (job.current->dp) one.layout.dp = *job.current->dp;
  Finish(job, one.layout);
  return one;
}

}  // namespace restow
