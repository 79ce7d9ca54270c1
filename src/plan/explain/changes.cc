#include "plan/explain/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "plan/price/candidate.h"
#include "plan/rank/order.h"
#include "plan/rules/rules.h"

namespace restow::plan {
namespace {

using Edit = std::function<void(OneCandidate&)>;

struct NamedEdits {
  const char* dimension;
  std::vector<Edit> edits;
};

std::string RecomputeName(const RecomputePlan& plan) {
  return plan.uniform() ? Name(plan.mode) : "per layer";
}

std::vector<int> Values(const Choice<int>& choice, std::vector<int> automatic) {
  return choice.automatic ? std::move(automatic) : choice.values;
}

template <class Set>
std::vector<Edit> EditsOf(const std::vector<int>& values, int now, Set set) {
  std::vector<Edit> edits;
  for (const int value : values) {
    if (value != now) edits.push_back([set, value](OneCandidate& one) { set(one.layout, value); });
  }
  return edits;
}

// A stage count of one has no chunks; sequence parallelism comes and goes with tp.
void SetTp(Layout& l, int tp) {
  l.tp = tp;
  l.sp = tp > 1;
}
void SetPp(Layout& l, int pp) {
  l.pp = pp;
  l.vpp = 1;
  l.schedule = Schedule::k1F1B;
}
void SetVpp(Layout& l, int vpp) {
  l.vpp = vpp;
  l.schedule = vpp > 1 ? Schedule::kInterleaved : Schedule::k1F1B;
}

std::vector<NamedEdits> AllEdits(const Context& context, const Choices& choices,
                                 const OneCandidate& one) {
  const Layout& l = one.layout;
  const std::vector<int> degrees = Divisors(context.job.cluster.devices);
  const bool experts = context.job.model.has_experts();
  std::vector<NamedEdits> all;
  NamedEdits recompute{"recompute", {}};
  for (const RecomputePlan& plan : choices.recompute) {
    if (plan == one.recompute) continue;
    recompute.edits.push_back([plan](OneCandidate& other) { other.recompute = plan; });
  }
  all.push_back(std::move(recompute));
  all.push_back({"tp", EditsOf(Values(choices.tp, degrees), l.tp, SetTp)});
  all.push_back({"pp", EditsOf(Values(choices.pp, degrees), l.pp, SetPp)});
  all.push_back({"zero", EditsOf(Values(choices.zero, {0, 1, 2, 3}), l.zero,
                                 [](Layout& o, int v) { o.zero = v; })});
  all.push_back({"micro_batch",
                 EditsOf(Values(choices.micro_batch, Divisors(context.job.training.global_batch)),
                         l.micro_batch, [](Layout& o, int v) { o.micro_batch = v; })});
  all.push_back(
      {"cp", EditsOf(Values(choices.cp, degrees), l.cp, [](Layout& o, int v) { o.cp = v; })});
  all.push_back({"vpp", EditsOf(Values(choices.vpp, {1, 2, 3, 4}), l.vpp, SetVpp)});
  if (experts) {
    all.push_back(
        {"ep", EditsOf(Values(choices.ep, degrees), l.ep, [](Layout& o, int v) { o.ep = v; })});
    all.push_back(
        {"etp", EditsOf(Values(choices.etp, degrees), l.etp, [](Layout& o, int v) { o.etp = v; })});
  }
  return all;
}

// dp follows from the degrees; false when they do not divide the devices or a stated dp is left.
bool Complete(const Context& context, const Choices& choices, OneCandidate& one) {
  Layout& l = one.layout;
  const std::int64_t used = static_cast<std::int64_t>(l.tp) * l.cp * l.pp;
  if (used > context.job.cluster.devices || context.job.cluster.devices % used != 0) return false;
  l.dp = static_cast<int>(context.job.cluster.devices / used);
  const std::vector<int>& allowed = choices.dp.values;
  if (!choices.dp.automatic && std::find(allowed.begin(), allowed.end(), l.dp) == allowed.end()) {
    return false;
  }
  if (l.zero_span >= l.dp * l.cp || l.zero == 0) l.zero_span = 0;
  const std::int64_t per_step = static_cast<std::int64_t>(l.dp) * l.micro_batch;
  if (context.job.training.global_batch % per_step != 0) return false;
  l.micro_batches = static_cast<int>(context.job.training.global_batch / per_step);
  return !CheckRules(context.job, l);
}

class Collector {
 public:
  Collector(const Context& context, const Choices& choices, const OneCandidate& from)
      : context_(context), choices_(choices), from_(from) {}

  void Try(OneCandidate one) {
    if (!Complete(context_, choices_, one)) return;
    Candidate candidate = PriceCandidate(context_, one.layout, one.recompute);
    if (!candidate.fits) return;
    found_.push_back({ChangeText(from_, one), std::move(candidate)});
  }

  bool empty() const { return found_.empty(); }

  std::vector<NearestChange> Best(int most) {
    std::stable_sort(found_.begin(), found_.end(),
                     [](const NearestChange& a, const NearestChange& b) {
                       return Better({a.candidate.step, a.candidate.peak, a.candidate.layout, 0},
                                     {b.candidate.step, b.candidate.peak, b.candidate.layout, 0});
                     });
    if (found_.size() > static_cast<std::size_t>(most))
      found_.resize(static_cast<std::size_t>(most));
    return std::move(found_);
  }

 private:
  const Context& context_;
  const Choices& choices_;
  const OneCandidate& from_;
  std::vector<NearestChange> found_;
};

}  // namespace

std::string ChangeText(const OneCandidate& from, const OneCandidate& to) {
  std::string text;
  const auto add = [&](const char* name, const auto& a, const auto& b) {
    if (a == b) return;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {} -> {}", name, a, b);
  };
  const Layout &a = from.layout, &b = to.layout;
  add("recompute", RecomputeName(from.recompute), RecomputeName(to.recompute));
  add("tp", a.tp, b.tp);
  add("sp", a.sp, b.sp);
  add("cp", a.cp, b.cp);
  add("pp", a.pp, b.pp);
  add("vpp", a.vpp, b.vpp);
  add("ep", a.ep, b.ep);
  add("etp", a.etp, b.etp);
  add("zero", a.zero, b.zero);
  add("micro_batch", a.micro_batch, b.micro_batch);
  if (text.empty()) add("dp", a.dp, b.dp);
  return text;
}

std::vector<NearestChange> FittingChanges(const Context& context, const Choices& choices,
                                          const OneCandidate& one, int most) {
  const std::vector<NamedEdits> all = AllEdits(context, choices, one);
  Collector single(context, choices, one);
  for (const NamedEdits& named : all) {
    for (const Edit& edit : named.edits) {
      OneCandidate other = one;
      edit(other);
      single.Try(std::move(other));
    }
  }
  if (!single.empty()) return single.Best(most);
  Collector pairs(context, choices, one);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = i + 1; k < all.size(); ++k) {
      for (const Edit& first : all[i].edits) {
        for (const Edit& second : all[k].edits) {
          OneCandidate other = one;
          first(other);
          second(other);
          pairs.Try(std::move(other));
        }
      }
    }
  }
  return pairs.Best(most);
}

}  // namespace restow::plan
