#include "plan/space/choices.h"

namespace restow::plan {
namespace {

template <class T>
Choice<T> Resolve(const Dimension<T>& stated, const std::optional<T>& current) {
  if (stated.stated) return {stated.automatic, stated.values};
  if (current) return {false, {*current}};
  return {true, {}};
}

}  // namespace

std::vector<int> Divisors(int n) {
  std::vector<int> low, high;
  for (int d = 1; static_cast<std::int64_t>(d) * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d != n / d) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

RecomputePlan OwnRecompute(const Job& job) {
  if (job.current && job.current->recompute) return *job.current->recompute;
  return {};
}

Choices ResolveChoices(const Job& job) {
  const SearchSpace& space = job.search;
  const CurrentStrategy current = job.current.value_or(CurrentStrategy{});
  Choices c;
  c.order = Resolve(space.order, current.order);
  if (!space.order.stated && !current.order) c.order = {false, {kDefaultOrder}};
  c.tp = Resolve(space.tp, current.tp);
  c.sp = Resolve(space.sp, current.sp);
  c.cp = Resolve(space.cp, current.cp);
  c.cp_kind = Resolve(space.cp_kind, current.cp_kind);
  c.ep = Resolve(space.ep, current.ep);
  c.etp = Resolve(space.etp, current.etp);
  c.pp = Resolve(space.pp, current.pp);
  c.dp = Resolve(space.dp, current.dp);
  c.micro_batch = Resolve(space.micro_batch, current.micro_batch);
  c.schedule = Resolve(space.schedule, current.schedule);
  c.vpp = Resolve(space.vpp, current.vpp);
  c.zero = Resolve(space.zero, current.zero);
  c.zero_span = Resolve(space.zero_span, current.zero_span);
  if (space.recompute.stated) {
    for (const Recompute mode : space.recompute.values) c.recompute.push_back({mode, {}});
  } else {
    c.recompute.push_back(OwnRecompute(job));
  }
  return c;
}

}  // namespace restow::plan
