#include "cli/common.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace restow::cli {
namespace {

constexpr std::size_t kWarningsShown = 8;

}  // namespace

void DeclareCommon(Arguments& arguments, CommonOptions& options) {
  arguments.FileFlag("--json", options.json, "JSON on standard output, or --json=FILE");
  arguments.FileFlag("--csv", options.csv, "CSV on standard output, or --csv=FILE");
  arguments.Number("--threads", options.threads, 1, 4096, "threads that search (default: all)");
  arguments.Flag("--strict", options.strict, "refuse fields that are not known");
  arguments.Flag("--quiet", options.quiet, "no progress and no warnings");
  arguments.Flag("--no-color", options.no_color, "no colour on a terminal");
}

void DeclareJob(Arguments& arguments, JobOptions& options) {
  arguments.Positional("JOB", options.path,
                       "job file, HyperParallel trainer YAML, or - (standard input)", true);
  arguments.Option("--margin", options.margin, "SIZE", "memory kept free on each device: 2GiB");
  arguments.Option("--calibration", options.calibration, "FILE",
                   "constants instead of the shipped ones");
}

void DeclareDimensions(Arguments& arguments, JobOptions& options) {
  arguments.Positionals("DIMENSIONS", options.dimensions,
                        "one value, a comma list, or auto: tp=2,4 pp=auto recompute=full");
}

JobReader::JobReader(JobOptions job, const CommonOptions& common)
    : job_(std::move(job)), common_(common) {
  if (job_.path == "-") stdin_document_ = std::make_unique<const Node>(ReadDocument("-"));
}

Job JobReader::Read(const std::vector<std::string>& dimensions, bool rules_decide) const {
  ReadOptions options;
  options.rules_decide = rules_decide;
  options.strict = common_.strict;
  options.dimensions = dimensions;
  if (!job_.margin.empty()) options.margin = job_.margin;
  if (!job_.calibration.empty()) options.calibration_path = job_.calibration;
  if (stdin_document_) return ReadJob(*stdin_document_, ".", options);
  return ReadJob(job_.path, options);
}

void WarnUnknown(const Job& job, const CommonOptions& common) {
  if (common.quiet) return;
  const std::vector<FieldNote> notes = UnknownFields(job);
  for (std::size_t i = 0; i < std::min(notes.size(), kWarningsShown); ++i) {
    const std::string reason = notes[i].reason.empty() ? "not known" : notes[i].reason;
    Say(fmt::format("warning: {}: {}", notes[i].path, reason));
  }
  if (notes.size() > kWarningsShown) {
    Say(fmt::format("warning: and {} more; --strict refuses them", notes.size() - kWarningsShown));
  }
}

TimedPlan RunPlan(const Job& job, const CommonOptions& common, int top) {
  const InterruptGuard interrupt;
  Progress progress(!common.quiet);
  SearchOptions options;
  options.top = top;
  options.threads = common.threads.value_or(0);
  options.cancel = interrupt.flag();
  if (progress.shown()) {
    options.progress = [&](const SearchProgress& state) { progress.Show(state); };
  }
  const auto start = std::chrono::steady_clock::now();
  TimedPlan plan{Plan(job, options), false};
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  progress.Clear();
  plan.report.elapsed = Seconds(elapsed.count());
  plan.interrupted = !plan.report.complete;
  return plan;
}

}  // namespace restow::cli
