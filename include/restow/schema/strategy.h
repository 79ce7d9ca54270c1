// How it is laid out: one value for every dimension of the search, and the recompute beside it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "restow/base/error.h"
#include "restow/base/quantity.h"

namespace restow {

enum class Schedule { kGpipe, k1F1B, kInterleaved };
enum class CpKind { kRing, kAllToAll };
enum class Recompute { kOff, kSelective, kFull };
inline constexpr int kRecomputeModes = 3;

const char* Name(Schedule schedule);
const char* Name(CpKind kind);
const char* Name(Recompute mode);

// Rank order from the inside out. Each letter of the grid once; ep shares the ranks of tp, cp and
// dp and stands where its group is cut from.
enum class Axis { kTp, kCp, kEp, kDp, kPp };
using RankOrder = std::array<Axis, 5>;
inline constexpr RankOrder kDefaultOrder = {Axis::kTp, Axis::kCp, Axis::kEp, Axis::kDp, Axis::kPp};

// "tp-cp-ep-dp-pp".
std::string Name(const RankOrder& order);

// One layout. `world = tp·cp·pp·dp`; the expert grid tiles it again: `world = etp·ep·pp·edp`.
struct Layout {
  int tp = 1;
  bool sp = false;
  int cp = 1;
  CpKind cp_kind = CpKind::kRing;
  int pp = 1;
  int vpp = 1;  // chunks per stage
  Schedule schedule = Schedule::k1F1B;
  int ep = 1;
  int etp = 1;
  int dp = 1;
  int zero = 0;
  int zero_span = 0;  // devices one shard spreads over; 0: the whole dp·cp group
  int micro_batch = 1;
  int micro_batches = 1;  // per step and model replica
  RankOrder order = kDefaultOrder;

  friend bool operator==(const Layout&, const Layout&) = default;
};

// Recompute of a candidate: one mode for the model, or the job's own list by layer.
struct RecomputePlan {
  Recompute mode = Recompute::kOff;  // of every layer, unless `layers` says otherwise
  std::vector<Recompute> layers;     // empty, or one mode per layer of the language model

  bool uniform() const { return layers.empty(); }
  Recompute at(int layer) const {
    return layers.empty() ? mode : layers[static_cast<std::size_t>(layer)];
  }
  friend bool operator==(const RecomputePlan&, const RecomputePlan&) = default;
};

// The layout and recompute a job runs with today. What it leaves out is not known: 0 or empty.
struct CurrentStrategy {
  std::optional<int> tp, cp, pp, vpp, ep, etp, dp, zero, zero_span, micro_batch;
  std::optional<bool> sp;
  std::optional<CpKind> cp_kind;
  std::optional<Schedule> schedule;
  std::optional<RankOrder> order;
  std::optional<RecomputePlan> recompute;
  SourcePosition where;
};

}  // namespace restow
