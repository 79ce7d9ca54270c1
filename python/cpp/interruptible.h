// Work that Ctrl-C stops.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <future>
#include <utility>

namespace restow::python {

// Runs `work(cancel)` on a thread of its own with the interpreter free for others, and returns what
// it returns. Between waits the calling thread lets Python handle its signals; when a handler
// raises (KeyboardInterrupt), `cancel` is set and the exception leaves once the work has ended.
// Threads: any that holds the interpreter; only the main one sees signals.
template <class Work>
auto Interruptible(Work work) {
  namespace py = pybind11;
  constexpr std::chrono::milliseconds kBetweenLooks(20);
  std::atomic<bool> cancel{false};
  const py::gil_scoped_release released;
  auto result = std::async(std::launch::async, [&] { return work(cancel); });
  while (result.wait_for(kBetweenLooks) != std::future_status::ready) {
    const py::gil_scoped_acquire acquired;
    if (PyErr_CheckSignals() == 0) continue;
    cancel = true;
    py::error_already_set raised;
    {
      const py::gil_scoped_release waiting;
      result.wait();
    }
    throw raised;
  }
  return result.get();
}

}  // namespace restow::python
