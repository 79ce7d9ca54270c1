// restow export: the activation plan of a chosen candidate, one file per stage.
#include <fmt/format.h>

#include "cli/common.h"
#include "cli/output.h"
#include "restow/base/units.h"
#include "restow/io/write.h"

namespace restow::cli {
namespace {

struct Options {
  CommonOptions common;
  JobOptions job;
  std::string to;
  std::string folder;
  std::string modules = "model.layers.{layer}";
  std::optional<int> rank;
};

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
    Say(
        fmt::format("error: the candidate does not fit: its peak is {} above the limit of {}; "
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
  return {RankedCandidate(plan.report, rank), kOk};
}

void WarnStale(const Options& options, std::size_t stages) {
  const std::string stale = StaleActivationPlan(options.folder, stages);
  if (options.common.quiet || stale.empty()) return;
  Say(fmt::format("warning: {} is left from an earlier export of more stages", stale));
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
  CheckExportTarget(options.to);
  if (options.rank && !options.job.dimensions.empty()) {
    ThrowUsage("--rank and dimension=value arguments both choose a candidate; state one of them");
  }
  const Job job = JobReader(options.job, options.common).Read();
  WarnUnknown(job, options.common);
  const Choice choice = Chosen(options, job);
  if (!choice.one) return choice.exit_code;
  const auto plans = ExportActivationPlans(job, *choice.one, options.modules);
  names = WriteActivationPlans(options.folder, plans);
  WarnStale(options, plans.size());
  Deliver(options.common, answer);
  return kOk;
}

}  // namespace

std::function<int()> DeclareExport(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  DeclareJob(arguments, options->job);
  DeclareDimensions(arguments, options->job);
  arguments.Option("--to", options->to, "NAME", "what to write: restow", true);
  arguments.Option("-o,--output", options->folder, "DIR", "folder for the files, made when missing",
                   true);
  arguments.Number("--rank", options->rank, 1, 1000000, "rank of the plan (default 1)");
  arguments.Option("--modules", options->modules, "PATTERN",
                   "how the model names its layers (default model.layers.{layer})");
  DeclareCommon(arguments, options->common);
  return [options] { return RunExport(*options); };
}

}  // namespace restow::cli
