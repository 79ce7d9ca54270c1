// How values of a report read: layouts, sizes, times. Private to src/report.
#pragma once

#include <string>
#include <vector>

#include "restow/schema/report.h"

namespace restow::report {

// One unit and number of decimals for a whole column.
struct Scale {
  const char* unit;
  double factor;  // of one unit, in SI units
  int decimals;

  std::string Number(double value) const;
};

// Chosen by the largest magnitude of the column, so that it shows three figures or more.
Scale TimeScale(const std::vector<Seconds>& values);
Scale SizeScale(const std::vector<Bytes>& values);

double ValueOf(Seconds seconds);
double ValueOf(Bytes bytes);

// "loss bwd", "optimizer": at most nine characters.
std::string ShortPhase(Phase phase);
// "stage 3 in loss backward".
std::string Place(int stage, Phase phase);
// LayoutText, recompute and micro-batches in one line.
std::string CandidateText(const Candidate& candidate);
// "job NAME, model NAME, 70.6 B parameters".
std::string ModelLine(const std::string& job_name, const Model& model);
// "+1.25 GiB", "-3.1 s"; "0" when equal.
std::string Signed(Bytes bytes);
std::string Signed(Seconds seconds);

}  // namespace restow::report
