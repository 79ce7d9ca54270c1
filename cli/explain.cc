// restow explain: why a candidate was refused or lost.
#include "cli/common.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "restow/io/write.h"

namespace restow::cli {
namespace {

struct Options {
  CommonOptions common;
  JobOptions job;
};

int RunExplain(const Options& options) {
  Explanation explanation;
  const Answer answer{[&](const TableStyle& style) { return DrawExplanation(explanation, style); },
                      [&] { return ToJson(explanation); },
                      [&] { return ExplanationCsv(explanation); }};
  CheckOutputs(options.common, answer);
  const JobReader reader(options.job, options.common);
  // The candidate comes from the arguments; what it is held against is the job's whole search.
  const Job narrowed = reader.ReadForRules();
  const Job job = reader.Read({});
  WarnUnknown(job, options.common);
  const InterruptGuard interrupt;
  Progress progress(!options.common.quiet);
  SearchOptions search;
  search.threads = options.common.threads.value_or(0);
  search.cancel = interrupt.flag();
  if (progress.shown()) {
    search.progress = [&](const SearchProgress& state) { progress.Show(state); };
  }
  explanation = Explain(job, CandidateUnder(narrowed, search), search);
  progress.Clear();
  if (interrupt.raised()) Say("interrupted: compared with the best found so far");
  Deliver(options.common, answer);
  return interrupt.raised() ? kInterrupted : kOk;
}

}  // namespace

std::function<int()> DeclareExplain(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  DeclareJob(arguments, options->job);
  DeclareDimensions(arguments, options->job);
  DeclareCommon(arguments, options->common);
  return [options] { return RunExplain(*options); };
}

}  // namespace restow::cli
