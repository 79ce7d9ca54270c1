// Which of two candidates is better: a total order, so that equal inputs give equal tables.
#pragma once

#include <vector>

#include "restow/base/quantity.h"
#include "restow/schema/strategy.h"

namespace restow::plan {

// What ranking looks at. `plan` is the index of the recompute plan in the order it was stated.
struct Scored {
  Seconds step;
  Bytes peak;
  Layout layout;
  int plan = 0;
};

// Faster first; of equal speed (to nine digits: arithmetic in another order must not rank) the
// smaller peak; then the layout that comes first in the order of enumeration; then the mode stated
// first.
bool Better(const Scored& a, const Scored& b);

// A step time with its last digits cleared, so that equal times compare equal.
double RankedSeconds(Seconds step);

// Keeps the best `size` of what is offered.
class TopList {
 public:
  explicit TopList(int size) : size_(static_cast<std::size_t>(size)) {}

  void Offer(const Scored& scored);
  void Merge(const TopList& other);
  // Whether no candidate of at least this step time can enter any more.
  bool Excludes(Seconds step) const;
  Seconds best() const { return sorted_.empty() ? Seconds(0) : sorted_.front().step; }
  const std::vector<Scored>& sorted() const { return sorted_; }

 private:
  std::size_t size_;
  std::vector<Scored> sorted_;
};

// The candidates that no other beats in both step time and peak memory, fastest first.
class ParetoFront {
 public:
  void Offer(const Scored& scored);
  void Merge(const ParetoFront& other);
  // Whether something is at most as slow and at most as large, and truly better in one of the two.
  bool Beats(Seconds step, Bytes peak) const;
  const std::vector<Scored>& sorted() const { return sorted_; }

 private:
  std::vector<Scored> sorted_;  // step rises, peak falls
};

// Candidates that do not fit, smallest peak first, one for each (tp, pp, recompute): variants of
// one idea do not crowd out the others.
class MissList {
 public:
  explicit MissList(int size) : size_(static_cast<std::size_t>(size)) {}

  void Offer(const Scored& scored);
  void Merge(const MissList& other);
  // Whether a candidate of at least this peak cannot enter any more.
  bool Excludes(Bytes peak) const;
  const std::vector<Scored>& sorted() const { return sorted_; }

 private:
  std::size_t size_;
  std::vector<Scored> sorted_;
};

}  // namespace restow::plan
