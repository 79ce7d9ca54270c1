// What the subcommands share: options that every one takes, reading the job, choosing a candidate.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "restow/io/read.h"
#include "restow/plan/planner.h"

namespace restow::cli {

enum ExitCode {
  kOk = 0,
  kInternalError = 1,
  kUsageError = 2,
  kInputError = 3,
  kNothingFits = 4,
  kInterrupted = 130,
};

// "-" stands for standard output; empty: not asked for.
struct CommonOptions {
  std::string json, csv;
  int threads = 0;  // 0: as many as the machine has
  bool strict = false;
  bool quiet = false;
  bool no_color = false;

  bool stdout_taken() const { return json == "-" || csv == "-"; }
};

// A job and how the command line narrows it.
struct JobOptions {
  std::string path;
  std::vector<std::string> dimensions;  // "tp=2,4"
  std::string margin;
  std::string calibration;
};

// A subcommand and what runs it; `run` gives the exit code.
struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;
};
using Commands = std::vector<Command>;

void AddCommonOptions(CLI::App& app, CommonOptions& options);
// JOB, --margin and --calibration.
void AddJobOptions(CLI::App& app, JobOptions& options);
// `dimension=value` arguments after what has been added so far.
void AddDimensions(CLI::App& app, JobOptions& options);
// Options that interfaces name and a later version brings: stating one is refused as such.
void AddLaterOption(CLI::App& app, const std::string& name);

// Reads a job as often as needed, each time with other dimensions; standard input is read once.
class JobReader {
 public:
  JobReader(JobOptions job, const CommonOptions& common);

  // The job narrowed by `dimensions` alone. Errors: kBadInput, kUsage.
  Job Read(const std::vector<std::string>& dimensions) const;
  // The job narrowed by the command line's own dimensions.
  Job Read() const { return Read(job_.dimensions); }

 private:
  JobOptions job_;
  const CommonOptions& common_;
  std::optional<Node> stdin_document_;
};

// Warns on standard error of fields that no reader knew, unless --quiet.
void WarnUnknown(const Job& job, const CommonOptions& common);

struct TimedPlan {
  PlanReport report;
  bool interrupted = false;
};
// Plans with progress on a terminal; Ctrl-C ends the search with the best so far. `top` candidates.
TimedPlan RunPlan(const Job& job, const CommonOptions& common, int top);

// The candidate of rank `rank`. Errors: kBadInput when fewer are ranked.
OneCandidate Ranked(const PlanReport& report, int rank);

// Registration of each subcommand.
void AddPlan(CLI::App& app, Commands& commands);
void AddPrice(CLI::App& app, Commands& commands);
void AddExplain(CLI::App& app, Commands& commands);
void AddCompare(CLI::App& app, Commands& commands);
void AddExport(CLI::App& app, Commands& commands);
void AddDevices(CLI::App& app, Commands& commands);
void AddModels(CLI::App& app, Commands& commands);
void AddSchema(CLI::App& app, Commands& commands);

}  // namespace restow::cli
