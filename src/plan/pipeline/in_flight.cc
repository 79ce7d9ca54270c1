#include "plan/pipeline/in_flight.h"

#include <algorithm>

#include "restow/base/check.h"

namespace restow::plan {
namespace {

int GroupOf(const PipelineShape& shape) {
  if (shape.vpp == 1) return 1;
  return shape.group > 0 ? shape.group : shape.pp;
}

// Chunk-forwards that run before the first backward.
int WarmUp(const PipelineShape& shape, int stage) {
  const int after = shape.pp - stage - 1;
  const int count = shape.vpp == 1 ? after : 2 * after + (shape.vpp - 1) * GroupOf(shape);
  return std::min(count, shape.micro_batches * shape.vpp);
}

// The i-th forward (or backward) of an interleaved stage: groups of micro-batches go through all
// chunks, one chunk at a time; a shorter group comes last where the group does not divide.
Event InterleavedEvent(const PipelineShape& shape, int i, bool forward) {
  const int group = GroupOf(shape);
  const int per_group = group * shape.vpp;
  const int before = i / per_group;
  const int within = i % per_group;
  const int size = std::min(group, shape.micro_batches - before * group);
  const int chunk = within / size;
  return {forward, forward ? chunk : shape.vpp - 1 - chunk, before * group + within % size};
}

template <class Visit>
void VisitGpipe(const PipelineShape& shape, Visit visit) {
  for (int c = 0; c < shape.vpp; ++c) {
    for (int m = 0; m < shape.micro_batches; ++m) visit(Event{true, c, m});
  }
  for (int c = shape.vpp - 1; c >= 0; --c) {
    for (int m = 0; m < shape.micro_batches; ++m) visit(Event{false, c, m});
  }
}

template <class Visit>
void VisitEvents(const PipelineShape& shape, int stage, Visit visit) {
  if (shape.schedule == Schedule::kGpipe) return VisitGpipe(shape, visit);
  const int total = shape.micro_batches * shape.vpp;
  const int warm = WarmUp(shape, stage);
  for (int i = 0; i < warm; ++i) visit(InterleavedEvent(shape, i, true));
  for (int i = 0; i < total - warm; ++i) {
    visit(InterleavedEvent(shape, warm + i, true));
    visit(InterleavedEvent(shape, i, false));
  }
  for (int i = total - warm; i < total; ++i) visit(InterleavedEvent(shape, i, false));
}

// Once warm, a stage repeats itself group by group, so a step with fewer whole groups passes
// through the same moments: those of the warm-up, three groups, and the shorter last group.
PipelineShape Clipped(PipelineShape shape, int stage) {
  const int group = GroupOf(shape);
  const int per_group = group * shape.vpp;
  const int groups = (WarmUp(shape, stage) + per_group - 1) / per_group + 3;
  const int kept = shape.micro_batches % group + group * groups;
  shape.micro_batches = std::min(shape.micro_batches, kept);
  return shape;
}

bool Covers(const std::vector<int>& larger, const std::vector<int>& smaller) {
  for (std::size_t c = 0; c < larger.size(); ++c) {
    if (larger[c] < smaller[c]) return false;
  }
  return true;
}

bool Collinear(const std::vector<int>& a, const std::vector<int>& b, const std::vector<int>& c) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (b[i] - a[i] != c[i] - b[i]) return false;
  }
  return true;
}

// Moments that run one chunk in one direction. Between two moments of a straight run of them no sum
// is larger than at both ends, whatever the sizes, so a run keeps its ends.
class MomentList {
 public:
  void Add(const std::vector<int>& alive, int chunk, bool forward) {
    if (!moments_.empty() && moments_.back().alive == alive) return;
    const std::size_t n = moments_.size();
    if (n >= 2 && Collinear(moments_[n - 2].alive, moments_[n - 1].alive, alive)) {
      moments_.back().alive = alive;
      return;
    }
    moments_.push_back({alive, chunk, forward});
  }

  void TakeLargest(std::vector<Moment>* result) const {
    const std::size_t first = result->size();
    for (const Moment& moment : moments_) {
      if (Covered(*result, first, moment)) continue;
      const auto begin = result->begin() + static_cast<std::ptrdiff_t>(first);
      result->erase(
          std::remove_if(begin, result->end(),
                         [&](const Moment& old) { return Covers(moment.alive, old.alive); }),
          result->end());
      result->push_back(moment);
    }
  }

 private:
  static bool Covered(const std::vector<Moment>& result, std::size_t first, const Moment& moment) {
    for (std::size_t i = first; i < result.size(); ++i) {
      if (Covers(result[i].alive, moment.alive)) return true;
    }
    return false;
  }

  std::vector<Moment> moments_;
};

// All micro-batches of a chunk are alive when its last forward and its first backward run, and
// all of the chunks before it.
std::vector<Moment> GpipeMoments(const PipelineShape& shape) {
  std::vector<Moment> result;
  std::vector<int> alive(static_cast<std::size_t>(shape.vpp), 0);
  for (int c = 0; c < shape.vpp; ++c) {
    alive[static_cast<std::size_t>(c)] = shape.micro_batches;
    result.push_back({alive, c, true});
  }
  for (int c = shape.vpp - 1; c >= 0; --c) {
    result.push_back({alive, c, false});
    alive[static_cast<std::size_t>(c)] = 0;
  }
  return result;
}

}  // namespace

PipelineShape WithoutRepetitions(const PipelineShape& shape) {
  // The first stage warms up longest, so what it needs holds the others' moments too.
  return shape.schedule == Schedule::kGpipe ? shape : Clipped(shape, 0);
}

std::vector<Event> StageEvents(const PipelineShape& shape, int stage) {
  RESTOW_CHECK(stage >= 0 && stage < shape.pp && shape.vpp >= 1 && shape.micro_batches >= 1);
  std::vector<Event> events;
  events.reserve(2 * static_cast<std::size_t>(shape.micro_batches) *
                 static_cast<std::size_t>(shape.vpp));
  VisitEvents(shape, stage, [&](const Event& event) { events.push_back(event); });
  return events;
}

std::vector<Moment> PeakMoments(const PipelineShape& shape, int stage) {
  RESTOW_CHECK(stage >= 0 && stage < shape.pp && shape.vpp >= 1 && shape.micro_batches >= 1);
  if (shape.schedule == Schedule::kGpipe) return GpipeMoments(shape);
  const std::size_t chunks = static_cast<std::size_t>(shape.vpp);
  std::vector<int> alive(chunks, 0);
  std::vector<MomentList> lists(2 * chunks);
  VisitEvents(Clipped(shape, stage), stage, [&](const Event& event) {
    const std::size_t c = static_cast<std::size_t>(event.chunk);
    if (event.forward) ++alive[c];
    lists[2 * c + (event.forward ? 0 : 1)].Add(alive, event.chunk, event.forward);
    if (!event.forward) --alive[c];
  });
  std::vector<Moment> result;
  for (const MomentList& list : lists) list.TakeLargest(&result);
  return result;
}

InFlightPeak PeakInFlight(const std::vector<Moment>& moments,
                          const std::vector<ChunkBytes>& chunks) {
  RESTOW_CHECK(!moments.empty() && moments.front().alive.size() == chunks.size());
  std::size_t best = 0;
  std::int64_t largest = -1;
  for (std::size_t i = 0; i < moments.size(); ++i) {
    const Moment& moment = moments[i];
    const ChunkBytes& running = chunks[static_cast<std::size_t>(moment.chunk)];
    std::int64_t sum = (moment.forward ? running.forward_extra : running.backward_extra).value();
    for (std::size_t c = 0; c < chunks.size(); ++c)
      sum += moment.alive[c] * chunks[c].saved.value();
    if (sum <= largest) continue;
    largest = sum;
    best = i;
  }
  return {Bytes(largest), moments[best]};
}

}  // namespace restow::plan
