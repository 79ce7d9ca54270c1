// An answer on its way to Python: the JSON the command prints, and the texts the command draws.
#pragma once

#include <pybind11/pybind11.h>

#include <map>
#include <string>
#include <vector>

#include "restow/schema/report.h"

namespace restow::python {

struct CandidateTexts {
  std::string layout, recompute;
  std::string summary;  // empty for a layout that was never priced
};

struct Answer {
  std::string json, text;
  // By the candidate's place in the JSON: "ranked/0", "current", "refused/2".
  std::map<std::string, CandidateTexts> candidates;
  std::vector<std::string> warnings;
};

// JSON, text and the texts of every candidate; warnings are the caller's.
Answer AnswerOf(const PlanReport& report);
Answer AnswerOf(const PriceReport& report);
Answer AnswerOf(const Explanation& explanation);
Answer AnswerOf(const Comparison& comparison);

void RegisterAnswers(pybind11::module_& m);

}  // namespace restow::python
