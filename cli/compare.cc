// restow compare: two candidates term by term.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "cli/common.h"
#include "cli/output.h"
#include "restow/base/text.h"
#include "restow/io/write.h"

namespace restow::cli {
namespace {

struct Options {
  CommonOptions common;
  JobOptions job;
  std::string a, b;
};

// 0 when the argument is no rank.
int RankOf(const std::string& side) {
  int rank = 0;
  const auto parsed = std::from_chars(side.data(), side.data() + side.size(), rank);
  if (parsed.ec != std::errc() || parsed.ptr != side.data() + side.size()) return 0;
  if (rank < 1) ThrowUsage(fmt::format("'{}' is no rank; ranks count from 1", side));
  return rank;
}

void CheckSide(const std::string& side) {
  if (RankOf(side) > 0 || Lower(side) == "current" || side.find('=') != std::string::npos) return;
  ThrowUsage(fmt::format(
      "'{}' is not a candidate; a rank of the plan, current, or one quoted argument like "
      "'tp=8 pp=4 recompute=full' is expected",
      side));
}

std::string DimensionName(const std::string& argument) {
  return Lower(Trim(std::string_view(argument).substr(0, argument.find('='))));
}

// The words of the quoted argument; they replace what the command line says of the same dimension.
std::vector<std::string> Merge(std::vector<std::string> dimensions, const std::string& side) {
  std::istringstream words(side);
  for (std::string word; words >> word;) {
    std::erase_if(dimensions, [&](const std::string& other) {
      return DimensionName(other) == DimensionName(word);
    });
    dimensions.push_back(word);
  }
  return dimensions;
}

// Plans once, with as many ranks as either side asks for.
class Sides {
 public:
  Sides(const Options& options, const JobReader& reader, const Job& job)
      : options_(options), reader_(reader), job_(job) {}

  OneCandidate Find(const std::string& side) {
    if (RankOf(side) > 0) return Ranked(Planned(), RankOf(side));
    if (Lower(side) == "current") return CurrentCandidate(job_);
    return TheCandidate(reader_.Read(Merge(options_.job.dimensions, side)));
  }

  bool interrupted() const { return plan_ && plan_->interrupted; }

 private:
  const PlanReport& Planned() {
    const int top = std::max(RankOf(options_.a), RankOf(options_.b));
    if (!plan_) plan_ = RunPlan(job_, options_.common, top);
    return plan_->report;
  }

  const Options& options_;
  const JobReader& reader_;
  const Job& job_;
  std::optional<TimedPlan> plan_;
};

std::string NameOf(const std::string& side) {
  return RankOf(side) > 0 ? "rank " + side : side;
}

int RunCompare(const Options& options) {
  Comparison comparison;
  const Answer answer{[&](const TableStyle& style) { return DrawComparison(comparison, style); },
                      [&] { return ToJson(comparison); },
                      [&] { return ComparisonCsv(comparison); }};
  CheckOutputs(options.common, answer);
  CheckSide(options.a);
  CheckSide(options.b);
  const JobReader reader(options.job, options.common);
  const Job job = reader.Read();
  WarnUnknown(job, options.common);
  Sides sides(options, reader, job);
  const OneCandidate a = sides.Find(options.a);
  const OneCandidate b = sides.Find(options.b);
  comparison = Compare(job, a, b);
  comparison.a_name = NameOf(options.a);
  comparison.b_name = NameOf(options.b);
  Deliver(options.common, answer);
  return sides.interrupted() ? kInterrupted : kOk;
}

}  // namespace

void AddCompare(CLI::App& app, Commands& commands) {
  CLI::App& sub = *app.add_subcommand("compare", "set two candidates side by side");
  const auto options = std::make_shared<Options>();
  AddJobOptions(sub, options->job);
  const char* what = "a rank of the plan, current, or one quoted argument 'tp=8 pp=4'";
  sub.add_option("A", options->a, what)->required()->type_name("");
  sub.add_option("B", options->b, what)->required()->type_name("");
  AddDimensions(sub, options->job);
  AddCommonOptions(sub, options->common);
  commands.push_back({&sub, [options] { return RunCompare(*options); }});
}

}  // namespace restow::cli
