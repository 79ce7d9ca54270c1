#include "plan/rank/order.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <tuple>

namespace restow::plan {
namespace {

auto LayoutKey(const Layout& l) {
  return std::make_tuple(l.order, l.tp, l.sp, l.cp, l.cp_kind, l.ep, l.etp, l.pp, l.micro_batch,
                         l.schedule, l.vpp, l.zero, l.zero_span);
}

}  // namespace

double RankedSeconds(Seconds step) {
  constexpr std::uint64_t kNoise = (std::uint64_t{1} << 22) - 1;  // 52 - 22 bits: nine digits
  return std::bit_cast<double>((std::bit_cast<std::uint64_t>(step.value()) + kNoise / 2) & ~kNoise);
}

bool Better(const Scored& a, const Scored& b) {
  const double a_step = RankedSeconds(a.step), b_step = RankedSeconds(b.step);
  if (a_step != b_step) return a_step < b_step;
  if (a.peak != b.peak) return a.peak < b.peak;
  const auto a_key = LayoutKey(a.layout), b_key = LayoutKey(b.layout);
  if (a_key != b_key) return a_key < b_key;
  return a.plan < b.plan;
}

void TopList::Offer(const Scored& scored) {
  if (size_ == 0) return;
  if (sorted_.size() == size_) {
    if (!Better(scored, sorted_.back())) return;
    sorted_.pop_back();
  }
  sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), scored, Better), scored);
}

void TopList::Merge(const TopList& other) {
  for (const Scored& scored : other.sorted_) Offer(scored);
}

Seconds TopList::threshold() const {
  return sorted_.size() == size_ && size_ > 0 ? sorted_.back().step
                                              : Seconds(std::numeric_limits<double>::infinity());
}

bool ParetoFront::Dominates(Seconds step, Bytes peak) const {
  // The last point at most as slow has the smallest peak of all of those.
  const auto after = std::upper_bound(
      sorted_.begin(), sorted_.end(), RankedSeconds(step),
      [](double s, const Scored& point) { return s < RankedSeconds(point.step); });
  return after != sorted_.begin() && std::prev(after)->peak <= peak;
}

void ParetoFront::Offer(const Scored& scored) {
  const auto place = std::upper_bound(sorted_.begin(), sorted_.end(), scored, Better);
  if (place != sorted_.begin() && std::prev(place)->peak <= scored.peak) return;
  auto beaten = place;
  while (beaten != sorted_.end() && beaten->peak >= scored.peak) ++beaten;
  sorted_.insert(sorted_.erase(place, beaten), scored);
}

void ParetoFront::Merge(const ParetoFront& other) {
  for (const Scored& scored : other.sorted_) Offer(scored);
}

}  // namespace restow::plan
