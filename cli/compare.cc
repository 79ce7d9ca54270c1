// restow compare: two candidates term by term.
#include <algorithm>

#include "cli/common.h"
#include "cli/output.h"
#include "restow/io/write.h"

namespace restow::cli {
namespace {

struct Options {
  CommonOptions common;
  JobOptions job;
  std::string a, b;
};

// Plans once, with as many ranks as either side asks for.
class Sides {
 public:
  Sides(const Options& options, const JobReader& reader, const Job& job, int top)
      : options_(options), reader_(reader), job_(job), top_(top) {}

  OneCandidate Find(const CandidateName& side) {
    if (side.rank > 0) return RankedCandidate(Planned(), side.rank);
    if (side.current) return CurrentCandidate(job_);
    return TheCandidate(reader_.Read(MergeDimensions(options_.job.dimensions, side.dimensions)));
  }

  bool interrupted() const { return plan_ && plan_->interrupted; }

 private:
  const PlanReport& Planned() {
    if (!plan_) plan_ = RunPlan(job_, options_.common, top_);
    return plan_->report;
  }

  const Options& options_;
  const JobReader& reader_;
  const Job& job_;
  int top_;
  std::optional<TimedPlan> plan_;
};

int RunCompare(const Options& options) {
  Comparison comparison;
  const Answer answer{[&](const TableStyle& style) { return DrawComparison(comparison, style); },
                      [&] { return ToJson(comparison); },
                      [&] { return ComparisonCsv(comparison); }};
  CheckOutputs(options.common, answer);
  const CandidateName a_name = ReadCandidateName(options.a);
  const CandidateName b_name = ReadCandidateName(options.b);
  const JobReader reader(options.job, options.common);
  const Job job = reader.Read();
  WarnUnknown(job, options.common);
  Sides sides(options, reader, job, std::max(a_name.rank, b_name.rank));
  const OneCandidate a = sides.Find(a_name);
  const OneCandidate b = sides.Find(b_name);
  comparison = Compare(job, a, b);
  comparison.a_name = a_name.text;
  comparison.b_name = b_name.text;
  Deliver(options.common, answer);
  return sides.interrupted() ? kInterrupted : kOk;
}

}  // namespace

std::function<int()> DeclareCompare(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  DeclareJob(arguments, options->job);
  const char* what = "a rank of the plan, current, or one quoted argument 'tp=8 pp=4'";
  arguments.Positional("A", options->a, what, true);
  arguments.Positional("B", options->b, what, true);
  DeclareDimensions(arguments, options->job);
  DeclareCommon(arguments, options->common);
  return [options] { return RunCompare(*options); };
}

}  // namespace restow::cli
