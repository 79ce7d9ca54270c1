// restow export: the activation plan of a chosen candidate, one file per stage.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "cli/common.h"
#include "cli/output.h"
#include "restow/base/text.h"
#include "restow/base/units.h"
#include "restow/io/write.h"

namespace restow::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  CommonOptions common;
  JobOptions job;
  std::string to;
  std::string folder;
  std::string modules = "model.layers.{layer}";
  std::optional<int> rank;
};

constexpr std::array<std::string_view, 6> kLaterTargets = {
    "megatron", "torchtitan", "hyperparallel", "mindformers", "mindspeed", "deepspeed"};

void CheckTarget(const std::string& to) {
  if (to == "restow") return;
  if (std::find(kLaterTargets.begin(), kLaterTargets.end(), to) != kLaterTargets.end()) {
    ThrowUnsupported(fmt::format("--to {} is not available in this version; restow is", to));
  }
  ThrowUsage(fmt::format("--to '{}' is not known; restow is expected", to));
}

// What is to be written, or why there is nothing.
struct Choice {
  std::optional<OneCandidate> one;
  int exit_code = kOk;
};

Choice Chosen(const Options& options, const Job& job) {
  if (!options.job.dimensions.empty()) {
    const OneCandidate one = TheCandidate(job);
    const Candidate candidate = Price(job, one).candidate;
    if (candidate.fits) return {one, kOk};
    Say(fmt::format("error: the candidate does not fit: its peak is {} above the limit of {}; "
                    "nothing is written",
                    FormatBytes(candidate.peak - candidate.limit), FormatBytes(candidate.limit)));
    return {std::nullopt, kNothingFits};
  }
  const int rank = options.rank.value_or(1);
  const TimedPlan plan = RunPlan(job, options.common, rank);
  if (plan.interrupted) {
    Say("error: interrupted before the ranking was complete; nothing is written");
    return {std::nullopt, kInterrupted};
  }
  if (plan.report.ranked.empty()) {
    Say("error: nothing fits; nothing is written (restow plan shows the nearest misses)");
    return {std::nullopt, kNothingFits};
  }
  return {Ranked(plan.report, rank), kOk};
}

[[noreturn]] void ThrowCannot(const char* what, const fs::path& path, const std::error_code& error) {
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

// Written whole and then renamed, all of them or none.
std::vector<std::string> WriteStages(const fs::path& folder,
                                     const std::vector<ActivationPlan>& plans) {
  const Staging staging(folder);
  for (std::size_t stage = 0; stage < plans.size(); ++stage) {
    WriteFileText(staging.Path(StageFile(stage)).string(), ToJson(plans[stage]));
  }
  std::vector<std::string> names;
  for (std::size_t stage = 0; stage < plans.size(); ++stage) {
    staging.MoveOut(StageFile(stage));
    names.push_back((folder / StageFile(stage)).string());
  }
  return names;
}

void WarnStale(const Options& options, std::size_t stages) {
  const fs::path stale = fs::path(options.folder) / StageFile(stages);
  std::error_code ignored;
  if (options.common.quiet || !fs::exists(stale, ignored)) return;
  Say(fmt::format("warning: {} is left from an earlier export of more stages", stale.string()));
}

int RunExport(const Options& options) {
  std::vector<std::string> names;
  const Answer answer{[&](const TableStyle&) {
                        std::string text;
                        for (const std::string& name : names) text += name + "\n";
                        return text;
                      },
                      nullptr, nullptr};
  CheckOutputs(options.common, answer);
  CheckTarget(options.to);
  if (options.rank && !options.job.dimensions.empty()) {
    ThrowUsage("--rank and dimension=value arguments both choose a candidate; state one of them");
  }
  const Job job = JobReader(options.job, options.common).Read();
  WarnUnknown(job, options.common);
  const Choice choice = Chosen(options, job);
  if (!choice.one) return choice.exit_code;
  const auto plans = ExportActivationPlans(job, *choice.one, options.modules);
  names = WriteStages(options.folder, plans);
  WarnStale(options, plans.size());
  Deliver(options.common, answer);
  return kOk;
}

}  // namespace

void AddExport(CLI::App& app, Commands& commands) {
  CLI::App& sub = *app.add_subcommand("export", "write the activation plan of a candidate");
  const auto options = std::make_shared<Options>();
  AddJobOptions(sub, options->job);
  AddDimensions(sub, options->job);
  sub.add_option("--to", options->to, "what to write: restow")->required()->type_name("NAME");
  sub.add_option("-o,--output", options->folder, "folder for the files, made when missing")
      ->required()
      ->type_name("DIR");
  sub.add_option("--rank", options->rank, "rank of the plan (default 1)")
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  sub.add_option("--modules", options->modules,
                 "how the model names its layers (default model.layers.{layer})")
      ->type_name("PATTERN");
  AddCommonOptions(sub, options->common);
  commands.push_back({&sub, [options] { return RunExport(*options); }});
}

}  // namespace restow::cli
