#include "cpp/answer.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include "restow/io/write.h"
#include "restow/report/table.h"

namespace restow::python {
namespace {

namespace py = pybind11;

template <class Report>
Answer Start(const Report& report, std::string (*draw)(const Report&, const TableStyle&)) {
  return {ToJson(report), draw(report, {}), {}, {}};
}

void Add(Answer& answer, const std::string& place, const Candidate& candidate) {
  answer.candidates[place] = {LayoutText(candidate.layout), RecomputeText(candidate.recompute),
                              DrawCandidate(candidate, {})};
}

void Add(Answer& answer, const std::string& place, const std::vector<Candidate>& candidates) {
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Add(answer, fmt::format("{}/{}", place, i), candidates[i]);
  }
}

}  // namespace

Answer AnswerOf(const PlanReport& report) {
  Answer answer = Start(report, DrawPlan);
  if (report.current) Add(answer, "current", *report.current);
  Add(answer, "ranked", report.ranked);
  Add(answer, "leaner", report.leaner);
  for (std::size_t i = 0; i < report.nearest_misses.size(); ++i) {
    Add(answer, fmt::format("nearest_misses/{}", i), report.nearest_misses[i].candidate);
  }
  for (std::size_t i = 0; i < report.refused.size(); ++i) {
    const Refusal& refusal = report.refused[i];
    answer.candidates[fmt::format("refused/{}", i)] = {
        LayoutText(refusal.example), RecomputeText(refusal.example_recompute), ""};
  }
  return answer;
}

Answer AnswerOf(const PriceReport& report) {
  Answer answer = Start(report, DrawPrice);
  Add(answer, "candidate", report.candidate);
  return answer;
}

Answer AnswerOf(const Explanation& explanation) {
  Answer answer = Start(explanation, DrawExplanation);
  if (explanation.candidate) {
    Add(answer, "candidate", *explanation.candidate);
  } else {
    answer.candidates["candidate"] = {LayoutText(explanation.layout),
                                      RecomputeText(explanation.recompute), ""};
  }
  if (explanation.best) Add(answer, "best", *explanation.best);
  for (std::size_t i = 0; i < explanation.nearest.size(); ++i) {
    Add(answer, fmt::format("nearest/{}", i), explanation.nearest[i].candidate);
  }
  return answer;
}

Answer AnswerOf(const Comparison& comparison) {
  Answer answer = Start(comparison, DrawComparison);
  Add(answer, "a", comparison.a);
  Add(answer, "b", comparison.b);
  return answer;
}

void RegisterAnswers(py::module_& m) {
  py::class_<CandidateTexts>(m, "CandidateTexts")
      .def_readonly("layout", &CandidateTexts::layout)
      .def_readonly("recompute", &CandidateTexts::recompute)
      .def_readonly("summary", &CandidateTexts::summary);
  py::class_<Answer>(m, "Answer")
      .def_readonly("json", &Answer::json)
      .def_readonly("text", &Answer::text)
      .def_readonly("candidates", &Answer::candidates)
      .def_readonly("warnings", &Answer::warnings);
}

}  // namespace restow::python
