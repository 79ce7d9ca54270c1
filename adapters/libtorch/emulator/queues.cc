#include "emulator/queues.h"

#include <chrono>
#include <functional>
#include <utility>

#include "emulator/memory.h"

namespace restow::emulator {
namespace {

bool Threaded(const Machine& m) { return m.options.schedule == Schedule::kThreads; }

// On a worker thread: as long as the copy would take, then the bytes.
void MoveUnlocked(Machine& m, Lock& lock, const Task& task) {
  const bool sleep = m.options.clock == ClockKind::kReal;
  const Ticks left = sleep ? task.end - HostNow(m) : 0;
  lock.unlock();
  if (left > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(left / 1000));
  task.move();
  lock.lock();
}

// Without the lock: a tensor that Python knows takes the interpreter's lock when it dies, and who
// holds that one may be waiting for ours.
void LetGo(Lock& lock, std::function<void()> move) {
  lock.unlock();
  move = nullptr;
  lock.lock();
}

void RunFront(Machine& m, Lock& lock, StreamState& stream) {
  Task task = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (task.target != nullptr) {
    RunUntil(m, lock, *task.target, task.target_place);
  } else if (Threaded(m)) {
    MoveUnlocked(m, lock, task);
  } else {
    task.move();
  }
  for (const auto& block : task.blocks) Unpin(*block);
  stream.done = task.place;
  m.moved.notify_all();
  if (task.move) LetGo(lock, std::move(task.move));
}

void WorkerLoop(Machine& m, StreamState& stream) {
  Lock lock(m.mutex);
  for (;;) {
    m.moved.wait(lock, [&] { return m.stop_workers || !stream.queue.empty(); });
    if (stream.queue.empty()) return;
    RunFront(m, lock, stream);
  }
}

void WakeWorker(Machine& m, StreamState& stream) {
  if (!stream.worker.joinable())
    stream.worker = std::thread(WorkerLoop, std::ref(m), std::ref(stream));
  m.moved.notify_all();
}

}  // namespace

void RunUntil(Machine& m, Lock& lock, StreamState& stream, std::uint64_t place) {
  if (Threaded(m)) {
    m.moved.wait(lock, [&] { return stream.done >= place; });
    return;
  }
  while (stream.done < place) RunFront(m, lock, stream);
}

void RunAll(Machine& m, Lock& lock) {
  for (DeviceState& device : m.devices) {
    for (StreamState& stream : device.streams) RunUntil(m, lock, stream, stream.issued);
  }
}

void RunDrawn(Machine& m, Lock& lock) {
  if (m.options.schedule != Schedule::kRandom) return;
  for (DeviceState& device : m.devices) {
    for (StreamState& stream : device.streams) {
      if (stream.done == stream.issued || m.draws() % 2 == 0) continue;
      RunUntil(m, lock, stream, stream.done + 1 + m.draws() % (stream.issued - stream.done));
    }
  }
}

void Push(Machine& m, Lock& lock, StreamState& stream, Task task) {
  task.place = ++stream.issued;
  for (const auto& block : task.blocks) ++block->pending;
  stream.queue.push_back(std::move(task));
  if (Threaded(m)) return WakeWorker(m, stream);
  if (m.options.schedule == Schedule::kEarly) RunUntil(m, lock, stream, stream.issued);
  RunDrawn(m, lock);
}

void StopWorkers(Machine& m, Lock& lock) {
  m.stop_workers = true;
  m.moved.notify_all();
  std::vector<std::thread> workers;
  for (DeviceState& device : m.devices) {
    for (StreamState& stream : device.streams) {
      if (stream.worker.joinable()) workers.push_back(std::move(stream.worker));
    }
  }
  lock.unlock();
  for (std::thread& worker : workers) worker.join();
  lock.lock();
  m.stop_workers = false;
}

}  // namespace restow::emulator
