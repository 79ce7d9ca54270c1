#include "restow/schema/measured_run.h"

namespace restow {
namespace {

const std::string& Find(const std::map<std::string, std::string>& map, const std::string& key) {
  static const std::string nothing;
  const auto found = map.find(key);
  return found == map.end() ? nothing : found->second;
}

}  // namespace

const std::string& MeasuredRun::at(const std::string& column) const { return Find(fields, column); }

const std::string& MeasuredRun::Switch(const std::string& name) const {
  return Find(switches, name);
}

std::string MeasuredRun::Source() const {
  const std::size_t dash = id.rfind('-');
  const bool numbered = dash != std::string::npos && dash + 1 < id.size() &&
                        id.find_first_not_of("0123456789", dash + 1) == std::string::npos;
  return numbered ? id.substr(0, dash) : id;
}

}  // namespace restow
