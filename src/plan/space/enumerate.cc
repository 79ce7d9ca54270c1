#include "plan/space/enumerate.h"

#include <algorithm>

namespace restow::plan {
namespace {

constexpr int kMostAutomaticChunks = 8;
constexpr RankOrder kDpOutermost = {Axis::kTp, Axis::kCp, Axis::kEp, Axis::kPp, Axis::kDp};

// Walks the dimensions from the outside in. Each level fixes its dimensions in `layout_`, asks the
// rules of that level, and goes on.
class Walker {
 public:
  Walker(const Job& job, const Choices& choices, LayoutVisitor& visitor)
      : job_(job), choices_(choices), visitor_(visitor) {}

  std::vector<SearchUnit> Units() {
    for (const RankOrder& order : Orders()) {
      layout_ = Layout{};
      layout_.order = order;
      Tensor();
    }
    return std::move(units_);
  }

  void Unit(const SearchUnit& unit) {
    layout_ = unit.layout;
    Pipeline();
  }

 private:
  bool Holds(RuleLevel level) {
    const Rule* broken = FirstBroken(level, job_, layout_);
    if (broken != nullptr) visitor_.Refuse(*broken, layout_);
    return broken == nullptr;
  }

  template <class T>
  static std::vector<T> Pick(const Choice<T>& choice, std::vector<T> automatic) {
    return choice.automatic ? std::move(automatic) : choice.values;
  }

  // Only the first value counts where the dimension has no effect.
  template <class T>
  static std::vector<T> First(std::vector<T> values) {
    values.resize(std::min<std::size_t>(values.size(), 1));
    return values;
  }

  std::vector<RankOrder> Orders() const {
    return Pick(choices_.order, {kDefaultOrder, kDpOutermost});
  }

  int DevicesLeft() const {
    const std::int64_t used = static_cast<std::int64_t>(layout_.tp) * layout_.cp;
    return used <= job_.cluster.devices && job_.cluster.devices % used == 0
               ? static_cast<int>(job_.cluster.devices / used)
               : 0;
  }

  void Tensor() {
    for (const int tp : Pick(choices_.tp, Divisors(job_.cluster.devices))) {
      layout_.tp = tp;
      layout_.cp = 1;
      const std::vector<bool> automatic =
          tp > 1 ? std::vector<bool>{false, true} : std::vector<bool>{false};
      for (const bool sp : Pick(choices_.sp, automatic)) {
        layout_.sp = sp;
        if (Holds(RuleLevel::kTensor)) Context();
      }
    }
  }

  void Context() {
    layout_.cp = 1;
    const int left = DevicesLeft();
    for (const int cp : Pick(choices_.cp, left > 0 ? Divisors(left) : std::vector<int>{1})) {
      layout_.cp = cp;
      std::vector<CpKind> kinds = Pick(choices_.cp_kind, {CpKind::kRing, CpKind::kAllToAll});
      if (cp == 1) kinds = First(std::move(kinds));
      for (const CpKind kind : kinds) {
        layout_.cp_kind = kind;
        if (Holds(RuleLevel::kContext)) Experts();
      }
    }
    layout_.cp = 1;
  }

  std::vector<int> AutomaticEp() const {
    if (!job_.model.has_experts()) return {1};
    std::vector<int> degrees;
    int experts = 0;
    for (const LayerKind& kind : job_.model.stack.kinds) {
      if (kind.feed_forward.experts) experts = std::max(experts, kind.feed_forward.experts->count);
    }
    for (const int ep : Divisors(job_.cluster.devices)) {
      if (ep <= experts) degrees.push_back(ep);
    }
    return degrees;
  }

  void Experts() {
    for (const int ep : Pick(choices_.ep, AutomaticEp())) {
      layout_.ep = ep;
      const bool experts = job_.model.has_experts();
      for (const int etp :
           Pick(choices_.etp, experts ? Divisors(layout_.tp) : std::vector<int>{1})) {
        layout_.etp = etp;
        if (Holds(RuleLevel::kExperts)) units_.push_back({layout_});
      }
    }
    layout_.ep = layout_.etp = 1;
  }

  bool DpAllowed() const {
    const std::vector<int>& values = choices_.dp.values;
    return choices_.dp.automatic ||
           std::find(values.begin(), values.end(), layout_.dp) != values.end();
  }

  void Pipeline() {
    const int left = DevicesLeft();
    for (const int pp : Pick(choices_.pp, left > 0 ? Divisors(left) : std::vector<int>{1})) {
      layout_.pp = pp;
      const bool divides = left > 0 && left % pp == 0;
      layout_.dp = divides ? left / pp : std::max(1, left / pp);
      // A stated dp narrows an automatic pp; beside a stated pp it can be impossible, and said so.
      if (!DpAllowed()) {
        if (choices_.pp.automatic) continue;
        layout_.dp = choices_.dp.values.front();
      }
      if (Holds(RuleLevel::kPipeline)) Batch();
    }
  }

  void Batch() {
    for (const int size :
         Pick(choices_.micro_batch, Divisors(job_.training.global_batch / layout_.dp))) {
      layout_.micro_batch = size;
      layout_.micro_batches = job_.training.global_batch / layout_.dp / size;
      if (Holds(RuleLevel::kBatch)) Schedules();
    }
  }

  std::vector<Schedule> SchedulesHere() const {
    std::vector<Schedule> schedules =
        Pick(choices_.schedule, {Schedule::k1F1B, Schedule::kInterleaved});
    // With one micro-batch, or one stage, GPipe does what 1F1B does.
    const auto has = [&](Schedule s) {
      return std::find(schedules.begin(), schedules.end(), s) != schedules.end();
    };
    if ((layout_.micro_batches == 1 || layout_.pp == 1) && has(Schedule::k1F1B)) {
      schedules.erase(std::remove(schedules.begin(), schedules.end(), Schedule::kGpipe),
                      schedules.end());
    }
    return schedules;
  }

  std::vector<int> AutomaticVpp() const {
    if (layout_.schedule != Schedule::kInterleaved) return {1};
    std::vector<int> chunks;
    for (int v = 2; v <= kMostAutomaticChunks; ++v) {
      if (layout_.pp > 1 && layout_.pp * v <= job_.model.stack.layers()) chunks.push_back(v);
    }
    return chunks;
  }

  void Schedules() {
    const std::vector<Schedule> schedules = SchedulesHere();
    for (const Schedule schedule : schedules) {
      layout_.schedule = schedule;
      for (const int vpp : Pick(choices_.vpp, AutomaticVpp())) {
        layout_.vpp = vpp;
        // An automatic schedule follows a stated vpp.
        if (choices_.schedule.automatic && (schedule == Schedule::kInterleaved) != (vpp > 1))
          continue;
        if (Holds(RuleLevel::kSchedule)) States();
      }
    }
    layout_.vpp = 1;
    layout_.schedule = Schedule::k1F1B;
  }

  // Groups of the dp·cp ranks that fill a level of the interconnect: its size over the stride of
  // dp.
  std::vector<int> AutomaticSpans() const {
    std::vector<int> spans = {0};
    const int group = layout_.dp * layout_.cp;
    for (const Level& level : job_.cluster.levels) {
      if (level.size % layout_.tp != 0) continue;
      const int span = level.size / layout_.tp;
      if (span > 1 && span < group && group % span == 0) spans.push_back(span);
    }
    return spans;
  }

  // Sharding over one rank changes nothing: then the first value stands for all.
  bool StateMatters() const {
    return layout_.dp * layout_.cp > 1 ||
           layout_.tp * layout_.cp * layout_.dp > layout_.ep * layout_.etp;
  }

  void States() {
    states_.clear();
    for (const int zero : Pick(choices_.zero, {0, 1, 2, 3})) {
      layout_.zero = zero;
      layout_.zero_span = 0;
      // What a framework cannot run is refused where it is stated, and not generated where it is
      // not.
      if (choices_.zero.automatic && FirstBroken(RuleLevel::kState, job_, layout_) != nullptr)
        continue;
      std::vector<int> spans = Pick(choices_.zero_span, AutomaticSpans());
      if (zero == 0 && choices_.zero_span.automatic) spans = {0};
      for (const int span : spans) AddState(span);
      if (!StateMatters() && !states_.empty()) break;
    }
    layout_.zero = layout_.zero_span = 0;
    if (!states_.empty()) visitor_.Visit(layout_, states_);
  }

  void AddState(int span) {
    layout_.zero_span = span;
    if (!Holds(RuleLevel::kState)) return;
    // A span of the whole group is the default under another name.
    const int canonical = span == layout_.dp * layout_.cp ? 0 : span;
    for (const StateChoice& state : states_) {
      if (state.zero == layout_.zero && state.span == canonical) return;
    }
    states_.push_back({layout_.zero, canonical});
  }

  const Job& job_;
  const Choices& choices_;
  LayoutVisitor& visitor_;
  Layout layout_;
  std::vector<SearchUnit> units_;
  std::vector<StateChoice> states_;
};

}  // namespace

std::vector<SearchUnit> EnumerateUnits(const Job& job, const Choices& choices,
                                       LayoutVisitor& visitor) {
  return Walker(job, choices, visitor).Units();
}

void EnumerateUnit(const Job& job, const Choices& choices, const SearchUnit& unit,
                   LayoutVisitor& visitor) {
  Walker(job, choices, visitor).Unit(unit);
}

}  // namespace restow::plan
