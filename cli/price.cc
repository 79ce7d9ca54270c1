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

std::function<int()> DeclarePrice(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  DeclareJob(arguments, options->job);
  DeclareDimensions(arguments, options->job);
  DeclareCommon(arguments, options->common);
  return [options] { return RunPrice(*options); };
}

}  // namespace restow::cli
