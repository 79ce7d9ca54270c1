#include "plan/pipeline/simulate.h"

#include <algorithm>
#include <optional>

#include "restow/base/check.h"

namespace restow::plan {
namespace {

struct Task {
  bool forward;
  int chunk;
  int micro_batch;
};

// Chunks and micro-batches of one direction in the order a stage takes them: a group of
// micro-batches through every chunk, then the next group.
std::vector<Task> Direction(bool forward, int stages, int chunks, int micro_batches) {
  std::vector<Task> tasks;
  for (int group = 0; group < micro_batches; group += stages) {
    const int end = std::min(group + stages, micro_batches);
    for (int c = 0; c < chunks; ++c) {
      for (int i = group; i < end; ++i) {
        tasks.push_back({forward, forward ? c : chunks - 1 - c, i});
      }
    }
  }
  return tasks;
}

int WarmUp(Schedule schedule, int stages, int chunks, int stage, int all) {
  const int behind = stages - 1 - stage;
  switch (schedule) {
    case Schedule::kGpipe:
      return all;
    case Schedule::k1F1B:
      return std::min(behind, all);
    case Schedule::kInterleaved:
      return std::min(2 * behind + (chunks - 1) * stages, all);
  }
  return all;
}

std::vector<Task> Order(Schedule schedule, int stages, int chunks, int stage, int micro_batches) {
  const std::vector<Task> forward = Direction(true, stages, chunks, micro_batches);
  const std::vector<Task> backward = Direction(false, stages, chunks, micro_batches);
  const int all = static_cast<int>(forward.size());
  const int warm = WarmUp(schedule, stages, chunks, stage, all);
  std::vector<Task> order(forward.begin(), forward.begin() + warm);
  for (int i = 0; i < all; ++i) {
    if (warm + i < all) order.push_back(forward[static_cast<std::size_t>(warm + i)]);
    order.push_back(backward[static_cast<std::size_t>(i)]);
  }
  return order;
}

// When each forward and backward of each virtual stage ended.
class Finished {
 public:
  Finished(int virtual_stages, int micro_batches)
      : last_(virtual_stages - 1),
        micro_batches_(micro_batches),
        forward_(static_cast<std::size_t>(virtual_stages * micro_batches), -1.0),
        backward_(forward_) {}

  // Seconds at which a task can start, or nothing while what it needs is still to come.
  std::optional<double> Ready(const Task& task, int virtual_stage) const {
    const double at = Needed(task, virtual_stage);
    return at < 0 ? std::nullopt : std::optional<double>(at);
  }
  void Set(const Task& task, int virtual_stage, double at) {
    (task.forward ? forward_ : backward_)[Index(virtual_stage, task.micro_batch)] = at;
  }

 private:
  double Needed(const Task& task, int virtual_stage) const {
    if (task.forward) {
      return virtual_stage == 0 ? 0.0 : forward_[Index(virtual_stage - 1, task.micro_batch)];
    }
    return virtual_stage == last_ ? forward_[Index(virtual_stage, task.micro_batch)]
                                  : backward_[Index(virtual_stage + 1, task.micro_batch)];
  }
  std::size_t Index(int virtual_stage, int micro_batch) const {
    return static_cast<std::size_t>(virtual_stage * micro_batches_ + micro_batch);
  }

  int last_, micro_batches_;
  std::vector<double> forward_, backward_;
};

}  // namespace

Seconds SimulatePipeline(Schedule schedule, const PipelineWork& work, int micro_batches) {
  const int stages = work.stages(), chunks = work.chunks();
  RESTOW_CHECK(micro_batches >= 1);
  RESTOW_CHECK(chunks == 1 || schedule == Schedule::kInterleaved);
  std::vector<std::vector<Task>> orders;
  for (int r = 0; r < stages; ++r) {
    orders.push_back(Order(schedule, stages, chunks, r, micro_batches));
  }
  Finished finished(stages * chunks, micro_batches);
  std::vector<std::size_t> next(orders.size(), 0);
  std::vector<double> clock(orders.size(), 0.0);
  bool moved = true;
  while (moved) {
    moved = false;
    for (std::size_t r = 0; r < orders.size(); ++r) {
      while (next[r] < orders[r].size()) {
        const Task& task = orders[r][next[r]];
        const int virtual_stage = task.chunk * stages + static_cast<int>(r);
        const std::optional<double> ready = finished.Ready(task, virtual_stage);
        if (!ready) break;
        const auto& seconds = task.forward ? work.forward : work.backward;
        clock[r] =
            std::max(clock[r], *ready) + seconds[r][static_cast<std::size_t>(task.chunk)].value();
        finished.Set(task, virtual_stage, clock[r]);
        ++next[r];
        moved = true;
      }
    }
  }
  for (std::size_t r = 0; r < orders.size(); ++r) RESTOW_CHECK(next[r] == orders[r].size());
  return Seconds(*std::max_element(clock.begin(), clock.end()));
}

}  // namespace restow::plan
