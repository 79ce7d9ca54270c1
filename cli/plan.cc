// restow plan: search, rank, report.
#include "cli/common.h"
#include "cli/output.h"
#include "restow/io/write.h"

namespace restow::cli {
namespace {

struct Options {
  CommonOptions common;
  JobOptions job;
  int top = 10;
};

int RunPlanCommand(const Options& options) {
  PlanReport report;
  const Answer answer{[&](const TableStyle& style) { return DrawPlan(report, style); },
                      [&] { return ToJson(report); }, [&] { return PlanCsv(report); }};
  CheckOutputs(options.common, answer);
  const Job job = JobReader(options.job, options.common).Read();
  WarnUnknown(job, options.common);
  TimedPlan plan = RunPlan(job, options.common, options.top);
  report = std::move(plan.report);
  Deliver(options.common, answer);
  if (plan.interrupted) return kInterrupted;
  return report.ranked.empty() ? kNothingFits : kOk;
}

}  // namespace

void AddPlan(CLI::App& app, Commands& commands) {
  CLI::App& sub = *app.add_subcommand("plan", "search layouts and recompute, rank what fits");
  const auto options = std::make_shared<Options>();
  AddJobOptions(sub, options->job);
  AddDimensions(sub, options->job);
  sub.add_option("--top", options->top, "candidates shown (default 10)")
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  AddLaterOption(sub, "--html");
  AddLaterOption(sub, "--trace");
  AddCommonOptions(sub, options->common);
  commands.push_back({&sub, [options] { return RunPlanCommand(*options); }});
}

}  // namespace restow::cli
