#include "restow/schema/job.h"

namespace restow {
namespace {

// Kept free where nothing is stated: four in a hundred, docs/planner.md, "Memory".
constexpr std::int64_t kMarginDivisor = 25;

// "search.tp" of "search.tp[2]", "search" of "search.tp", "" of "search".
std::string ParentOf(const std::string& path) {
  const std::size_t end = path.find_last_of(".[");
  return end == std::string::npos ? "" : path.substr(0, end);
}

}  // namespace

SourcePosition Job::At(const std::string& path) const {
  std::string at = path;
  while (true) {
    const auto found = where.find(at);
    if (found != where.end()) return found->second;
    if (at.empty()) return {};
    at = ParentOf(at);
  }
}

Bytes Job::Margin() const {
  if (search.margin) return *search.margin;
  return Bytes(cluster.device.memory.value() / kMarginDivisor);
}

}  // namespace restow
