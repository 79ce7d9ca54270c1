#include "restow/swap/host_device.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "restow/swap/host_bytes.h"

namespace restow::swap {
namespace {

double Clock() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// Bytes of our own, or somebody else's.
class Memory : public DeviceMemory {
 public:
  explicit Memory(std::size_t bytes)
      : data(static_cast<std::byte*>(NewHostBytes(bytes))), size(bytes), own(true) {}
  Memory(void* bytes, std::size_t count, std::shared_ptr<void> keeper)
      : data(static_cast<std::byte*>(bytes)), size(count), owner(std::move(keeper)) {}
  ~Memory() override {
    if (own) DeleteHostBytes(data);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::size_t bytes() const noexcept override { return size; }
  // A wait on stream 0 has happened when it returns, so memory is free when it is given up. Other
  // streams' work may still be queued then.
  bool FreesInOrderOf(Stream stream) const noexcept override { return stream.id == 0; }

  std::byte* data;
  std::size_t size;
  bool own = false;
  std::shared_ptr<void> owner;
};

// Counts recordings and how many were reached; a wait is for the recording that was last then.
class HostEvent : public Event {
 public:
  struct Mark {
    std::mutex mutex;
    std::condition_variable reached;
    bool done = false;
    double at_s = 0;

    void Reach() {
      const std::lock_guard<std::mutex> lock(mutex);
      done = true;
      at_s = Clock();
      reached.notify_all();
    }
    void Wait() {
      std::unique_lock<std::mutex> lock(mutex);
      reached.wait(lock, [this] { return done; });
    }
    bool Done() {
      const std::lock_guard<std::mutex> lock(mutex);
      return done;
    }
  };
  std::shared_ptr<Mark> Last() {
    const std::lock_guard<std::mutex> lock(mutex);
    return last;
  }
  void Set(std::shared_ptr<Mark> mark) {
    const std::lock_guard<std::mutex> lock(mutex);
    last = std::move(mark);
  }

 private:
  std::mutex mutex;
  std::shared_ptr<Mark> last;
};

// A thread that runs what it is given, in order.
class Worker {
 public:
  Worker() : thread_([this] { Loop(); }) {}
  ~Worker() {
    Put(nullptr);
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void Put(std::function<void()> work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(work));
    filled_.notify_one();
  }

 private:
  void Loop() {
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        filled_.wait(lock, [this] { return !queue_.empty(); });
        work = std::move(queue_.front());
        queue_.pop_front();
      }
      if (!work) return;
      work();
    }
  }

  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::function<void()>> queue_;
  std::thread thread_;
};

Memory& Mine(DeviceMemory& memory) { return dynamic_cast<Memory&>(memory); }

// The current stream of each thread, for the device it was set on.
struct Current {
  const void* device = nullptr;
  Stream stream;
};
thread_local Current current;

class ThreadedDevice : public HostDevice {
 public:
  Capabilities capabilities() const noexcept override {
    Capabilities can;
    can.pinned_memory = false;
    can.timed_events = true;
    can.copies_on_device = true;
    can.host_addressable = true;
    return can;
  }

  Stream CurrentStream() override { return current.device == this ? current.stream : Stream(); }
  void SetCurrentStream(Stream stream) override { current = {this, stream}; }

  Stream NewCopyStream(Direction) override { return NewStream(); }
  Stream NewStream() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    workers_.push_back(std::make_unique<Worker>());
    return Stream{workers_.size()};
  }

  void Run(Stream stream, std::function<void()> work) override {
    if (stream.id == 0) return work();
    Worker* worker = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      worker = workers_.at(static_cast<std::size_t>(stream.id) - 1).get();
    }
    worker->Put(std::move(work));
  }

  void Synchronize(Stream stream) override {
    const auto mark = std::make_shared<HostEvent::Mark>();
    Run(stream, [mark] { mark->Reach(); });
    mark->Wait();
  }

  std::unique_ptr<Event> NewEvent() override { return std::make_unique<HostEvent>(); }
  void Record(Event& event, Stream stream) override {
    const auto mark = std::make_shared<HostEvent::Mark>();
    static_cast<HostEvent&>(event).Set(mark);
    Run(stream, [mark] { mark->Reach(); });
  }
  void StreamWait(Stream stream, Event& event) override {
    if (const auto mark = static_cast<HostEvent&>(event).Last()) {
      Run(stream, [mark] { mark->Wait(); });
    }
  }
  bool Done(Event& event) override {
    const auto mark = static_cast<HostEvent&>(event).Last();
    return mark == nullptr || mark->Done();
  }
  void HostWait(Event& event) override {
    if (const auto mark = static_cast<HostEvent&>(event).Last()) mark->Wait();
  }
  double EventSeconds(Event& event) override {
    const auto mark = static_cast<HostEvent&>(event).Last();
    if (mark == nullptr) return 0;
    const std::lock_guard<std::mutex> lock(mark->mutex);
    return mark->at_s;
  }
  double Now() override { return Clock(); }

  DeviceBuffer Allocate(std::size_t bytes, Stream) override {
    return std::make_shared<Memory>(bytes);
  }
  DeviceBuffer Wrap(void* data, std::size_t bytes, std::shared_ptr<void> owner) override {
    return std::make_shared<Memory>(data, bytes, std::move(owner));
  }
  void* HostAddress(DeviceMemory& memory) override { return Mine(memory).data; }

  HostMemory AllocateHost(std::size_t bytes, bool pinned) override {
    if (pinned) throw std::runtime_error("the host device has no pinned memory");
    return {NewHostBytes(bytes), bytes, false, nullptr};
  }
  void FreeHost(const HostMemory& memory) noexcept override { DeleteHostBytes(memory.data); }

  void CopyOut(void* to, DeviceMemory& from, std::size_t offset, std::size_t bytes,
               Stream stream) override {
    const std::byte* source = Mine(from).data + offset;
    Run(stream, [=] { std::memcpy(to, source, bytes); });
  }
  void CopyIn(DeviceMemory& to, std::size_t offset, const void* from, std::size_t bytes,
              Stream stream) override {
    std::byte* target = Mine(to).data + offset;
    Run(stream, [=] { std::memcpy(target, from, bytes); });
  }
  void CopyOnDevice(DeviceMemory& to, std::size_t to_offset, DeviceMemory& from,
                    std::size_t from_offset, std::size_t bytes, Stream stream) override {
    std::byte* target = Mine(to).data + to_offset;
    const std::byte* source = Mine(from).data + from_offset;
    Run(stream, [=] { std::memcpy(target, source, bytes); });
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace

std::shared_ptr<HostDevice> MakeHostDevice() { return std::make_shared<ThreadedDevice>(); }

}  // namespace restow::swap
