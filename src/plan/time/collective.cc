#include "plan/time/collective.h"

#include <algorithm>
#include <cmath>

namespace restow::plan {
namespace {

// Share of a full mesh's links that a group of `members` uses inside one domain.
double MeshShare(const Machine::Constants& k, const Link& link, int members) {
  if (!k.mesh || link.size <= 1) return 1.0;
  return std::min(1.0, (members - 1.0) / (link.size - 1.0));
}

bool Outermost(const Machine::Constants& k, std::size_t level) {
  return level + 1 == k.links.size();
}

}  // namespace

RingPath PathOf(const Machine::Constants& k, const RankGroup& group) {
  const int size = group.size();
  RingPath path;
  if (size <= 1) return path;
  path.share = (size - 1.0) / size;
  int inside = 1;
  double hops = 0;
  for (std::size_t level = 0; level < k.links.size(); ++level) {
    const Link& link = k.links[level];
    const int members = Outermost(k, level) ? size : MembersInside(group, link.size);
    if (level == 0) {
      path.rate = members >= size ? link.rate * MeshShare(k, link, size) : link.rate;
    } else {
      path.rate = std::min(path.rate, link.rate * inside);
    }
    hops += (static_cast<double>(size) / inside - static_cast<double>(size) / members) * link.hop;
    path.start = link.start;
    inside = members;
    if (members >= size) break;
  }
  path.fixed = path.start + hops;
  return path;
}

double GatherSeconds(const Machine::Constants& k, double bytes, const RankGroup& group) {
  return GatherSeconds(PathOf(k, group), bytes);
}

double AllToAllSeconds(const Machine::Constants& k, double bytes, const RankGroup& group,
                       double copies) {
  const int size = group.size();
  if (size <= 1) return 0.0;
  const Link& inner = k.links.front();
  const int node = k.links.size() == 1 ? size : MembersInside(group, inner.size);
  if (node >= size) {
    return bytes * (size - 1.0) / size / (inner.rate * MeshShare(k, inner, size)) + inner.start;
  }
  double slowest = bytes * (node - 1.0) / node / inner.rate;
  double start = inner.start;
  int inside = node;
  for (std::size_t level = 1; level < k.links.size() && inside < size; ++level) {
    const Link& link = k.links[level];
    const double domains = static_cast<double>(size) / inside;
    const double crossing =
        copies > 1 ? bytes / copies * (domains - 1) * (1 - std::pow(1 - 1 / domains, copies))
                   : bytes * (1 - 1 / domains);
    slowest = std::max(slowest, crossing / link.rate);
    start = link.start;
    inside = Outermost(k, level) ? size : MembersInside(group, link.size);
  }
  return slowest + start;
}

RingPath NeighbourPath(const Machine::Constants& k, const RankGroup& pipeline) {
  RingPath path;
  const GroupAxis& axis = pipeline.axes[0];
  if (axis.degree <= 1) return path;
  path.share = 1;
  path.rate = k.links.front().rate;
  path.start = path.fixed = k.links.front().start;
  for (std::size_t level = 1; level < k.links.size(); ++level) {
    if (axis.degree * axis.stride <= k.links[level - 1].size) break;
    path.rate = std::min(path.rate, k.links[level].rate);
    path.start = path.fixed = k.links[level].start;
  }
  return path;
}

}  // namespace restow::plan
