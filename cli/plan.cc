// restow plan: search, rank, report.
#include "cli/common.h"
#include "cli/output.h"
#include "restow/io/write.h"

namespace restow::cli {
namespace {

constexpr int kTop = 10;

struct Options {
  CommonOptions common;
  JobOptions job;
  std::optional<int> top;
};

int RunPlanCommand(const Options& options) {
  PlanReport report;
  const Answer answer{[&](const TableStyle& style) { return DrawPlan(report, style); },
                      [&] { return ToJson(report); }, [&] { return PlanCsv(report); }};
  CheckOutputs(options.common, answer);
  const Job job = JobReader(options.job, options.common).Read();
  WarnUnknown(job, options.common);
  TimedPlan plan = RunPlan(job, options.common, options.top.value_or(kTop));
  report = std::move(plan.report);
  Deliver(options.common, answer);
  if (plan.interrupted) return kInterrupted;
  return report.ranked.empty() ? kNothingFits : kOk;
}

}  // namespace

std::function<int()> DeclarePlan(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  DeclareJob(arguments, options->job);
  DeclareDimensions(arguments, options->job);
  arguments.Number("--top", options->top, 1, 1000000, "candidates shown (default 10)");
  arguments.Later("--html");
  arguments.Later("--trace");
  DeclareCommon(arguments, options->common);
  return [options] { return RunPlanCommand(*options); };
}

}  // namespace restow::cli
