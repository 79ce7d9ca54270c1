#include "plan/rank/order.h"

#include <algorithm>
#include <bit>
#include <cstdint>
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

bool TopList::Excludes(Seconds step) const {
  if (size_ == 0) return true;
  return sorted_.size() == size_ && RankedSeconds(step) > RankedSeconds(sorted_.back().step);
}

bool ParetoFront::Beats(Seconds step, Bytes peak) const {
  const double ranked = RankedSeconds(step);
  // The last point at most as slow has the smallest peak of all of those.
  const auto after =
      std::upper_bound(sorted_.begin(), sorted_.end(), ranked,
                       [](double s, const Scored& point) { return s < RankedSeconds(point.step); });
  if (after == sorted_.begin()) return false;
  const Scored& point = *std::prev(after);
  return point.peak < peak || (point.peak == peak && RankedSeconds(point.step) < ranked);
}

void ParetoFront::Offer(const Scored& scored) {
  const auto place = std::upper_bound(sorted_.begin(), sorted_.end(), scored, Better);
  if (place != sorted_.begin() && std::prev(place)->peak <= scored.peak) return;
  auto beaten = place;
  while (beaten != sorted_.end() && beaten->peak >= scored.peak) ++beaten;
  sorted_.insert(sorted_.erase(place, beaten), scored);
}

namespace {

bool SmallerPeak(const Scored& a, const Scored& b) {
  return a.peak != b.peak ? a.peak < b.peak : Better(a, b);
}

bool SameIdea(const Scored& a, const Scored& b) {
  return a.layout.tp == b.layout.tp && a.layout.pp == b.layout.pp && a.plan == b.plan;
}

}  // namespace

void MissList::Offer(const Scored& scored) {
  const auto same = std::find_if(sorted_.begin(), sorted_.end(),
                                 [&](const Scored& other) { return SameIdea(scored, other); });
  if (same != sorted_.end()) {
    if (!SmallerPeak(scored, *same)) return;
    sorted_.erase(same);
  }
  sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), scored, SmallerPeak), scored);
  if (sorted_.size() > size_) sorted_.pop_back();
}

void MissList::Merge(const MissList& other) {
  for (const Scored& scored : other.sorted_) Offer(scored);
}

bool MissList::Excludes(Bytes peak) const {
  return sorted_.size() == size_ && peak > sorted_.back().peak;
}

void ParetoFront::Merge(const ParetoFront& other) {
  for (const Scored& scored : other.sorted_) Offer(scored);
}

}  // namespace restow::plan
