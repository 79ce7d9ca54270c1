// One updating line on standard error while a search runs; silent unless that is a terminal.
#pragma once

#include <chrono>

#include "restow/plan/planner.h"

namespace restow::cli {

class Progress {
 public:
  explicit Progress(bool wanted);
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool shown() const { return shown_; }
  // Draws the line, at most ten times a second.
  void Show(const SearchProgress& state);
  void Clear();

 private:
  bool shown_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace restow::cli
