// What the subcommands share: options that every one takes, reading the job, choosing a candidate.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
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
  std::optional<int> threads;  // empty: as many as the machine has
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

void DeclareCommon(Arguments& arguments, CommonOptions& options);
// JOB, --margin and --calibration.
void DeclareJob(Arguments& arguments, JobOptions& options);
// `dimension=value` arguments after the positionals declared so far.
void DeclareDimensions(Arguments& arguments, JobOptions& options);

// Reads a job as often as needed, each time with other dimensions; standard input is read once.
class JobReader {
 public:
  JobReader(JobOptions job, const CommonOptions& common);

  // The job narrowed by `dimensions` alone. Errors: kBadInput, kUsage.
  Job Read(const std::vector<std::string>& dimensions, bool rules_decide = false) const;
  // The job narrowed by the command line's own dimensions.
  Job Read() const { return Read(job_.dimensions); }
  // The same for a candidate that is to be explained: what rules refuse is no bad input.
  Job ReadForRules() const { return Read(job_.dimensions, true); }

 private:
  JobOptions job_;
  const CommonOptions& common_;
  std::unique_ptr<const Node> stdin_document_;  // empty: the job is a file
};

// Warns on standard error of fields that no reader knew, unless --quiet.
void WarnUnknown(const Job& job, const CommonOptions& common);

struct TimedPlan {
  PlanReport report;
  bool interrupted = false;
};
// Plans with progress on a terminal; Ctrl-C ends the search with the best so far. `top` candidates.
TimedPlan RunPlan(const Job& job, const CommonOptions& common, int top);

// Each subcommand: declares its arguments, gives what runs it.
std::function<int()> DeclarePlan(Arguments& arguments);
std::function<int()> DeclarePrice(Arguments& arguments);
std::function<int()> DeclareExplain(Arguments& arguments);
std::function<int()> DeclareCompare(Arguments& arguments);
std::function<int()> DeclareExport(Arguments& arguments);
std::function<int()> DeclareCalibrate(Arguments& arguments);
std::function<int()> DeclareValidate(Arguments& arguments);
std::function<int()> DeclareDevices(Arguments& arguments);
std::function<int()> DeclareModels(Arguments& arguments);
std::function<int()> DeclareSchema(Arguments& arguments);

}  // namespace restow::cli
