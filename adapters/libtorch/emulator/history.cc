#include "emulator/history.h"

#include <algorithm>
#include <mutex>
#include <set>

namespace restow::emulator {
namespace {

void AddOnce(std::vector<Access>& found, const Access& access) {
  const auto same = [&](const Access& other) {
    return other.label == access.label && other.kind == access.kind &&
           other.epoch.actor == access.epoch.actor;
  };
  if (std::none_of(found.begin(), found.end(), same)) found.push_back(access);
}

void AddUnseen(std::vector<Access>& found, const Access& access, const VectorClock& clock) {
  if (!clock.Covers(access.epoch)) AddOnce(found, access);
}

}  // namespace

Label Intern(const std::string& name) {
  static std::mutex* const mutex = new std::mutex;
  static auto* const names = new std::set<std::string>;
  const std::lock_guard lock(*mutex);
  return &*names->insert(name).first;
}

History::History(std::uint64_t bytes, const Access& first) {
  segments_.emplace(0, Segment{bytes, first, {}});
}

void History::Split(std::uint64_t at) {
  auto after = segments_.upper_bound(at);
  if (after == segments_.begin()) return;
  Segment& segment = std::prev(after)->second;
  if (std::prev(after)->first == at || segment.end <= at) return;
  Segment tail = segment;
  segment.end = at;
  segments_.emplace_hint(after, at, std::move(tail));
}

std::pair<History::Segments::iterator, History::Segments::iterator> History::Cut(ByteRange range) {
  Split(range.begin);
  Split(range.end);
  return {segments_.lower_bound(range.begin), segments_.lower_bound(range.end)};
}

std::vector<Access> History::Read(ByteRange range, const Access& access, const VectorClock& clock) {
  std::vector<Access> unseen;
  const auto [begin, end] = Cut(range);
  for (auto at = begin; at != end; ++at) {
    Segment& segment = at->second;
    AddUnseen(unseen, segment.write, clock);
    // Whatever is ordered after this read is ordered after the reads that it has seen itself.
    std::erase_if(segment.reads, [&](const Access& read) { return clock.Covers(read.epoch); });
    segment.reads.push_back(access);
  }
  return unseen;
}

std::vector<Access> History::Write(ByteRange range, const Access& access,
                                   const VectorClock& clock) {
  std::vector<Access> unseen;
  const auto [begin, end] = Cut(range);
  if (begin == end) return unseen;
  for (auto at = begin; at != end; ++at) {
    AddUnseen(unseen, at->second.write, clock);
    for (const Access& read : at->second.reads) AddUnseen(unseen, read, clock);
  }
  begin->second = Segment{std::prev(end)->second.end, access, {}};
  segments_.erase(std::next(begin), end);
  return unseen;
}

std::vector<Access> History::Unseen(const VectorClock& clock,
                                    const std::vector<Actor>& excused) const {
  std::vector<Access> unseen;
  const auto check = [&](const Access& access) {
    const bool skip =
        std::find(excused.begin(), excused.end(), access.epoch.actor) != excused.end();
    if (!skip) AddUnseen(unseen, access, clock);
  };
  for (const auto& [begin, segment] : segments_) {
    check(segment.write);
    for (const Access& read : segment.reads) check(read);
  }
  return unseen;
}

}  // namespace restow::emulator
