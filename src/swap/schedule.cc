#include "swap/schedule.h"

#include <algorithm>

namespace restow::swap {

Schedule::Site& Schedule::SiteOf(std::string_view label) {
  const auto found = sites_.find(label);
  if (found != sites_.end()) return found->second;
  Site& site = sites_[std::string(label)];
  site.label = label;
  return site;
}

Invocation& Schedule::NextInvocation(Site& site) {
  const std::uint32_t index = site.next++;
  if (index == site.invocations.size()) site.invocations.emplace_back();
  return site.invocations[index];
}

NameId Schedule::NameOf(Site& site, Invocation& invocation, std::uint32_t index) {
  while (index >= invocation.names.size()) invocation.names.push_back(NewName(site));
  return invocation.names[index];
}

NameId Schedule::NewName(Site& site) {
  live_.push_back(nullptr);
  labels_.push_back(&site);
  first_.push_back(kNowhere);
  return static_cast<NameId>(live_.size() - 1);
}

void Schedule::Used(NameId name) {
  if (name == last_) return;  // further slots of the unit in use
  last_ = name;
  if (log_.size() >= kLongestStep) Step();
  log_.push_back(name);
  Locate(name);
}

// Finds this use in the learnt order: usually the next place, else the first later one, for a unit
// that is used more than once a step.
void Schedule::Locate(NameId name) {
  if (next_ != kNowhere && next_ < order_.size() && order_[next_] == name) {
    ++next_;
    return;
  }
  const std::size_t from = next_;
  next_ = first_[name] == kNowhere ? kNowhere : first_[name] + 1;
  if (from == kNowhere || next_ == kNowhere) return;
  constexpr std::size_t kFar = 64;
  const std::size_t end = std::min(order_.size(), from + kFar);
  for (std::size_t i = from; i < end; ++i) {
    if (order_[i] != name) continue;
    next_ = i + 1;
    return;
  }
}

NameId Schedule::Ahead(std::size_t k) const {
  if (next_ == kNowhere || k > order_.size() - next_) return kNoName;
  return order_[next_ + k - 1];
}

void Schedule::Step() {
  if (!log_.empty()) Adopt(log_);
  log_.clear();
  next_ = order_.empty() ? kNowhere : 0;
  last_ = kNoName;
  CloseInvocations();
}

void Schedule::Adopt(std::vector<NameId>& order) {
  for (const NameId name : order_) first_[name] = kNowhere;
  order_.swap(order);
  for (std::size_t i = order_.size(); i-- > 0;) first_[order_[i]] = i;
}

// Where every invocation saved last before its own backward, as a single wide region does, "last"
// would mean all: then none is.
void Schedule::CloseInvocations() {
  bool other = false;
  for (auto& [label, site] : sites_) {
    for (const Invocation& run : site.invocations) other |= run.bytes_next > 0 && !run.last_next;
  }
  for (auto& [label, site] : sites_) {
    site.next = 0;
    for (Invocation& run : site.invocations) {
      run.last = run.last_next && other;
      run.bytes = run.bytes_next;
      run.last_next = false;
      run.bytes_next = 0;
    }
  }
}

void Schedule::Give(const std::vector<UseName>& order) {
  std::vector<NameId> names;
  for (const UseName& use : order) {
    Site& site = SiteOf(use.site);
    while (site.invocations.size() <= use.invocation) site.invocations.emplace_back();
    names.push_back(NameOf(site, site.invocations[use.invocation], use.index));
  }
  Adopt(names);
  next_ = order_.empty() ? kNowhere : 0;
}

}  // namespace restow::swap
