// In what order units will be used: learnt from the step before, or given. A hint, never trusted.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "restow/swap/engine.h"
#include "swap/unit.h"

namespace restow::swap {

// One run of a site in a step.
struct Invocation {
  std::vector<NameId> names;
  std::size_t bytes = 0, bytes_next = 0;  // packed in the step before, and so far in this one
  bool last = false;       // in the step before, it saved last before its own first use
  bool last_next = false;  // the same of the running step
};

// A unit's name is the same in every step: its site, which invocation of the site in the step, and
// which storage of the invocation. A step is one forward and backward of everything that overlaps.
// Not thread-safe: the table lock guards it.
class Schedule {
 public:
  struct Site {
    std::string label;
    std::deque<Invocation> invocations;  // addresses stay
    std::uint32_t next = 0;
  };

  Site& SiteOf(std::string_view label);
  Invocation& NextInvocation(Site& site);
  NameId NameOf(Site& site, Invocation& invocation, std::uint32_t index);

  void Bind(NameId name, Unit* unit) { live_[name] = unit; }
  void Unbind(NameId name, const Unit* unit) {
    if (live_[name] == unit) live_[name] = nullptr;
  }
  Unit* Live(NameId name) const { return live_[name]; }
  const std::string& LabelOf(NameId name) const { return labels_[name]->label; }

  // The unit of that name is used now.
  void Used(NameId name);
  // True when the learnt order says what comes next: after the last use, or first in a step.
  bool Knows() const { return next_ != kNowhere; }
  // The k-th name after the last use, k from 1; kNoName past the end.
  NameId Ahead(std::size_t k) const;
  std::size_t learnt() const { return order_.size(); }

  // What was used becomes the order of the next step.
  void Step();
  void Give(const std::vector<UseName>& order);

 private:
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  // A program that never ends a step must not grow this without bound.
  static constexpr std::size_t kLongestStep = std::size_t{1} << 20;

  void Locate(NameId name);
  void Adopt(std::vector<NameId>& order);
  void CloseInvocations();
  NameId NewName(Site& site);

  std::map<std::string, Site, std::less<>> sites_;
  std::vector<Unit*> live_;         // by name
  std::vector<Site*> labels_;       // by name
  std::vector<std::size_t> first_;  // by name: first place in order_, or kNowhere
  std::vector<NameId> order_, log_;
  std::size_t next_ = kNowhere;  // place in order_ after the last use
  NameId last_ = kNoName;
};

}  // namespace restow::swap
