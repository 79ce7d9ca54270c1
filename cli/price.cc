// restow price: one candidate, term by term.
#include "cli/common.h"
#include "cli/output.h"
#include "restow/io/write.h"

namespace restow::cli {
namespace {

struct Options {
  CommonOptions common;
  JobOptions job;
};

int RunPrice(const Options& options) {
  PriceReport report;
  const Answer answer{[&](const TableStyle& style) { return DrawPrice(report, style); },
                      [&] { return ToJson(report); }, [&] { return PriceCsv(report); }};
  CheckOutputs(options.common, answer);
  const Job job = JobReader(options.job, options.common).Read();
  WarnUnknown(job, options.common);
  report = Price(job, TheCandidate(job));
  Deliver(options.common, answer);
  return report.candidate.fits ? kOk : kNothingFits;
}

}  // namespace

void AddPrice(CLI::App& app, Commands& commands) {
  CLI::App& sub = *app.add_subcommand("price", "price one candidate: memory and time by term");
  const auto options = std::make_shared<Options>();
  AddJobOptions(sub, options->job);
  AddDimensions(sub, options->job);
  AddCommonOptions(sub, options->common);
  commands.push_back({&sub, [options] { return RunPrice(*options); }});
}

}  // namespace restow::cli
