// The activation plans of an export, one file per stage.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "restow/base/error.h"
#include "restow/io/document.h"
#include "restow/io/write.h"

namespace restow {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 6> kLaterTargets = {
    "megatron", "torchtitan", "hyperparallel", "mindformers", "mindspeed", "deepspeed"};

[[noreturn]] void ThrowCannot(const char* what, const fs::path& path,
                              const std::error_code& error) {
  ThrowBadInput(fmt::format("{}: {}", what, error.message()), {path.string(), 0, 0});
}

// A folder inside the target in which files wait until all of them are written. It and what is in
// it are gone afterwards, and so is the target if it was made here and stays empty.
class Staging {
 public:
  explicit Staging(const fs::path& target) : target_(target) {
    std::error_code error;
    made_target_ = fs::create_directories(target_, error);
    if (error) ThrowCannot("cannot be made", target_, error);
    std::string pattern = (target_ / ".restow-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      const std::error_code reason(errno, std::generic_category());
      RemoveTarget();
      ThrowCannot("cannot be written into", target_, reason);
    }
    folder_ = pattern;
  }
  ~Staging() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
    RemoveTarget();
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  fs::path Path(const std::string& name) const { return folder_ / name; }

  void MoveOut(const std::string& name) const {
    std::error_code error;
    fs::rename(folder_ / name, target_ / name, error);
    if (error) ThrowCannot("cannot be written", target_ / name, error);
  }

 private:
  void RemoveTarget() const {
    std::error_code ignored;
    if (made_target_) fs::remove(target_, ignored);  // only an empty folder goes
  }

  fs::path target_, folder_;
  bool made_target_ = false;
};

std::string StageFile(std::size_t stage) { return fmt::format("stage-{}.json", stage); }

}  // namespace

std::vector<std::string> WriteActivationPlans(const std::string& folder,
                                              const std::vector<ActivationPlan>& plans) {
  const Staging staging(folder);
  for (std::size_t stage = 0; stage < plans.size(); ++stage) {
    WriteFileText(staging.Path(StageFile(stage)).string(), ToJson(plans[stage]));
  }
  std::vector<std::string> names;
  for (std::size_t stage = 0; stage < plans.size(); ++stage) {
    staging.MoveOut(StageFile(stage));
    names.push_back((fs::path(folder) / StageFile(stage)).string());
  }
  return names;
}

std::string StaleActivationPlan(const std::string& folder, std::size_t stages) {
  const fs::path stale = fs::path(folder) / StageFile(stages);
  std::error_code ignored;
  return fs::exists(stale, ignored) ? stale.string() : "";
}

void CheckExportTarget(const std::string& to) {
  if (to == "restow") return;
  if (std::find(kLaterTargets.begin(), kLaterTargets.end(), to) != kLaterTargets.end()) {
    ThrowUnsupported(fmt::format("export to '{}' is not available in this version; restow is", to));
  }
  ThrowUsage(fmt::format("export to '{}' is not known; restow is expected", to));
}

}  // namespace restow
