#include "engine/site.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "engine/guard.h"
#include "engine/marks.h"

namespace restow::libtorch {
namespace {

struct Sites {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Site>> by_name;
};

Sites& TheSites() {
  static auto* const sites = new Sites;
  return *sites;
}

std::string ShapeOf(const Record& record) {
  const auto shown = static_cast<std::size_t>(std::min<int>(record.dims, Record::kDims));
  std::string text = SizesText({record.sizes.data(), shown});
  if (record.dims > Record::kDims) text.insert(text.size() - 1, ", ...");
  return text;
}

std::string HoldersOf(const Record& record) {
  const auto holders = record.storage.use_count();
  if (holders == 0) return "";
  return "; its storage is still held by " + std::to_string(holders) +
         (holders == 1 ? " other holder" : " other holders") + ", so device memory has not fallen";
}

Explanation Explained(const std::string& site, const Record& record) {
  Explanation line;
  line.label = (record.tag >= 0 ? TagName(record.tag) : site) + "::" + ShapeOf(record);
  line.bytes = record.bytes;
  const bool moved = record.asked && Moves(record.reason);
  line.decision = moved ? "moved" : record.standing == Standing::kMovable ? "kept" : "left alone";
  line.reason = !record.because.empty() ? record.because
                : record.asked          ? swap::Sentence(record.reason)
                                        : Sentence(record.standing);
  if (moved) line.reason += HoldersOf(record);
  return line;
}

// Equal lines once, with their number.
void ExplainSite(Site& site, std::vector<Explanation>& lines) {
  const std::lock_guard<std::mutex> lock(site.mutex);
  std::map<std::tuple<std::string, std::int64_t, std::string, std::string>, std::size_t> counts;
  const std::size_t first = lines.size();
  for (const Record& record : site.records) {
    Explanation line = Explained(site.label, record);
    if (++counts[{line.label, line.bytes, line.decision, line.reason}] == 1) {
      lines.push_back(std::move(line));
    }
  }
  for (std::size_t i = first; i < lines.size(); ++i) {
    Explanation& line = lines[i];
    const std::size_t count = counts[{line.label, line.bytes, line.decision, line.reason}];
    if (count > 1) line.label += " x" + std::to_string(count);
  }
}

}  // namespace

bool Moves(swap::Reason reason) {
  return reason == swap::Reason::kSwapped || reason == swap::Reason::kFused ||
         reason == swap::Reason::kWaitsForLaunch || reason == swap::Reason::kShared;
}

Site& SiteOf(const std::string& name) {
  Sites& sites = TheSites();
  const std::lock_guard<std::mutex> lock(sites.mutex);
  auto& site = sites.by_name[name];
  if (!site) {
    site = std::make_unique<Site>();
    site->name = name;
    site->label = name;
  }
  return *site;
}

std::vector<Site*> AllSites() {
  Sites& sites = TheSites();
  const std::lock_guard<std::mutex> lock(sites.mutex);
  std::vector<Site*> all;
  for (auto& [name, site] : sites.by_name) all.push_back(site.get());
  return all;
}

std::vector<Explanation> Explain() {
  std::vector<Explanation> lines;
  for (Site* site : AllSites()) ExplainSite(*site, lines);
  for (const std::string& tag : UnsavedTags()) {
    lines.push_back({tag, 0, "left alone", "marked, but autograd has not saved it"});
  }
  return lines;
}

void ForgetExplanations() {
  ForgetUnsavedTags();
  for (Site* site : AllSites()) {
    std::vector<Record> old;
    const std::lock_guard<std::mutex> lock(site->mutex);
    site->bytes = {};
    old.swap(site->records);
  }
}

}  // namespace restow::libtorch
