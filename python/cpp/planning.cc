#include "cpp/planning.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "cpp/answer.h"
#include "cpp/errors.h"
#include "cpp/interruptible.h"
#include "cpp/request.h"
#include "restow/base/units.h"
#include "restow/io/write.h"
#include "restow/plan/planner.h"

namespace restow::python {
namespace {

namespace py = pybind11;

using Cancel = std::atomic<bool>;
using Threads = std::optional<std::int64_t>;

// The limits of the command's options.
constexpr std::int64_t kLargestTop = 1000000;
constexpr std::int64_t kMostThreads = 4096;

int Within(const char* name, std::int64_t value, std::int64_t high) {
  if (value < 1 || value > high) {
    ThrowUsage(fmt::format("{} is {}; a whole number from 1 to {} is expected", name, value, high));
  }
  return static_cast<int>(value);
}

SearchOptions OptionsFor(const Threads& threads, const Cancel& cancel) {
  SearchOptions options;
  options.threads = threads ? Within("threads", *threads, kMostThreads) : 0;
  options.cancel = &cancel;
  return options;
}

PlanReport TimedPlan(const Job& job, const SearchOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  PlanReport report = Plan(job, options);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  report.elapsed = Seconds(elapsed.count());
  return report;
}

template <class Report>
Answer AnswerTo(const Job& job, const Report& report) {
  Answer answer = AnswerOf(report);
  answer.warnings = Warnings(job);
  return answer;
}

Answer PlanOf(const Request& request, std::int64_t top, Threads threads) {
  return Interruptible([&](const Cancel& cancel) {
    SearchOptions options = OptionsFor(threads, cancel);
    options.top = Within("top", top, kLargestTop);
    const Job job = request.Read();
    return AnswerTo(job, TimedPlan(job, options));
  });
}

Answer PriceOf(const Request& request) {
  const Job job = request.Read();
  return AnswerTo(job, Price(job, TheCandidate(job)));
}

// `request` is the whole search; `dimensions` narrow it to the candidate to be explained.
Answer ExplanationOf(const Request& request, const std::vector<std::string>& dimensions,
                     Threads threads) {
  return Interruptible([&](const Cancel& cancel) {
    const SearchOptions options = OptionsFor(threads, cancel);
    // What rules refuse is to be explained, so it is no bad input.
    const Job narrowed = request.ReadUnder(MergeDimensions(request.dimensions, dimensions), true);
    const Job job = request.Read();
    return AnswerTo(job, Explain(job, CandidateUnder(narrowed, options), options));
  });
}

Answer ComparisonOf(const Request& request, const std::string& a, const std::string& b,
                    Threads threads) {
  return Interruptible([&](const Cancel& cancel) {
    SearchOptions options = OptionsFor(threads, cancel);
    const CandidateName names[] = {ReadCandidateName(a), ReadCandidateName(b)};
    options.top = std::max({names[0].rank, names[1].rank, 1});
    const Job job = request.Read();
    std::optional<PlanReport> planned;
    const auto find = [&](const CandidateName& name) {
      if (name.current) return CurrentCandidate(job);
      if (name.rank == 0) {
        return TheCandidate(
            request.ReadUnder(MergeDimensions(request.dimensions, name.dimensions)));
      }
      if (!planned) planned = Plan(job, options);
      return RankedCandidate(*planned, name.rank);
    };
    const OneCandidate one = find(names[0]), other = find(names[1]);
    Comparison comparison = Compare(job, one, other);
    comparison.a_name = names[0].text;
    comparison.b_name = names[1].text;
    return AnswerTo(job, comparison);
  });
}

OneCandidate FittingCandidate(const Job& job, std::optional<std::int64_t> rank,
                              SearchOptions options) {
  if (!rank) {
    const OneCandidate one = TheCandidate(job);
    const Candidate candidate = Price(job, one).candidate;
    if (candidate.fits) return one;
    throw NothingFits(
        fmt::format("the candidate does not fit: its peak is {} above the limit of {}; nothing is "
                    "written",
                    FormatBytes(candidate.peak - candidate.limit), FormatBytes(candidate.limit)));
  }
  options.top = Within("rank", *rank, kLargestTop);
  const PlanReport report = Plan(job, options);
  if (report.complete && report.ranked.empty()) {
    throw NothingFits("nothing fits; nothing is written (restow.plan shows the nearest misses)");
  }
  return RankedCandidate(report, options.top);
}

struct Exported {
  std::vector<std::string> paths, warnings;
};

// The candidate of rank `rank`, or without one the only candidate that the request leaves.
Exported Export(const Request& request, const std::string& to, const std::string& folder,
                std::optional<std::int64_t> rank, const std::string& modules, Threads threads) {
  return Interruptible([&](const Cancel& cancel) {
    CheckExportTarget(to);
    const SearchOptions options = OptionsFor(threads, cancel);
    const Job job = request.Read();
    const OneCandidate one = FittingCandidate(job, rank, options);
    const auto plans = ExportActivationPlans(job, one, modules);
    Exported exported{{}, Warnings(job)};
    // The caller gets KeyboardInterrupt instead, and expects no files.
    if (cancel) return exported;
    exported.paths = WriteActivationPlans(folder, plans);
    const std::string stale = StaleActivationPlan(folder, plans.size());
    if (!stale.empty()) {
      exported.warnings.push_back(stale + " is left from an earlier export of more stages");
    }
    return exported;
  });
}

}  // namespace

void RegisterPlanning(py::module_& m) {
  m.def("plan", PlanOf, py::arg("request"), py::arg("top"), py::arg("threads"));
  m.def("price", PriceOf, py::arg("request"), py::call_guard<py::gil_scoped_release>());
  m.def("explain", ExplanationOf, py::arg("request"), py::arg("dimensions"), py::arg("threads"));
  m.def("compare", ComparisonOf, py::arg("request"), py::arg("a"), py::arg("b"),
        py::arg("threads"));
  py::class_<Exported>(m, "Exported")
      .def_readonly("paths", &Exported::paths)
      .def_readonly("warnings", &Exported::warnings);
  m.def("export", Export, py::arg("request"), py::arg("to"), py::arg("folder"), py::arg("rank"),
        py::arg("modules"), py::arg("threads"));
}

}  // namespace restow::python
