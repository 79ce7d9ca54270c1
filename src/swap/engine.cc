#include "restow/swap/engine.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "swap/core.h"

namespace restow::swap {

Slot::Slot(Core* core, Unit* unit, std::uint32_t piece, Reason reason)
    : core_(core), unit_(unit), piece_(piece), reason_(reason) {}

void Slot::Release() noexcept { core_->Release(*std::exchange(unit_, nullptr)); }

Slot::Unpacked Slot::Unpack() const { return core_->Unpack(*unit_, piece_); }

Region::Region(Core* core, RegionState* state) : core_(core), state_(state) {}

Region::Region(Region&& other) noexcept
    : core_(other.core_), state_(std::exchange(other.state_, nullptr)) {}

Region& Region::operator=(Region&& other) noexcept {
  if (this == &other) return *this;
  End();
  core_ = other.core_;
  state_ = std::exchange(other.state_, nullptr);
  return *this;
}

Region::~Region() { End(); }

void Region::End() noexcept {
  if (state_ != nullptr) core_->End(std::exchange(state_, nullptr));
}

Slot Region::Pack(const Storage& storage, Decision decision) {
  const Packed packed = core_->Pack(*state_, storage, decision);
  return Slot(core_, packed.unit, packed.piece, packed.reason);
}

// Looks for copies that do not finish, and tells.
struct Engine::WatchdogThread {
  WatchdogThread(Core& core, double period_s)
      : thread([this, &core, period_s] { Watch(core, period_s); }) {}
  ~WatchdogThread() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      stop = true;
    }
    wake.notify_all();
    thread.join();
  }

  void Watch(Core& core, double period_s) {
    std::unique_lock<std::mutex> lock(mutex);
    const std::chrono::duration<double> period(period_s);
    while (!wake.wait_for(lock, period, [this] { return stop; })) {
      lock.unlock();
      const std::vector<std::string> late = core.Diagnose(period_s);
      if (!late.empty()) core.Trouble(fmt::format("{}", fmt::join(late, "\n")));
      lock.lock();
    }
  }

  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;
  std::thread thread;
};

Engine::Engine(std::shared_ptr<Device> device, Options options)
    : core_(new Core(std::move(device), std::move(options))) {
  core_->AddHandle();
  const double period_s = core_->options().watchdog_s;
  if (period_s > 0) watchdog_ = std::make_unique<WatchdogThread>(*core_, period_s);
}

Engine::~Engine() {
  watchdog_.reset();
  core_->DropHandle();
}

Region Engine::Begin(const RegionOptions& options) { return Region(core_, core_->Begin(options)); }
void Engine::Step() { core_->Step(); }
void Engine::GiveOrder(const std::vector<UseName>& order) { core_->GiveOrder(order); }
void Engine::Forget(std::uint64_t identity) { core_->Forget(identity); }
void Engine::LaunchOffload(std::string_view group) { core_->LaunchOffload(group); }
void Engine::WaitOffload(std::string_view group) { core_->WaitOffload(group); }
void Engine::LaunchLoad(std::string_view group) { core_->LaunchLoad(group); }
void Engine::WaitLoad(std::string_view group) { core_->WaitLoad(group); }
void Engine::DropGroup(std::string_view group) { core_->DropGroup(group); }
std::vector<std::string> Engine::GroupNames() const { return core_->GroupNames(); }
Stats Engine::stats() const { return core_->GetStats(); }
void Engine::ResetStats() { core_->ResetStats(); }
void Engine::CountRecomputedRegion() { core_->CountRecomputedRegion(); }
std::vector<Transition> Engine::Recorded() const { return core_->Recorded(); }
std::string Engine::Dump() const { return swap::Dump(core_->Recorded()); }
std::vector<std::string> Engine::Diagnose(double older_than_s) const {
  return core_->Diagnose(older_than_s);
}
void Engine::StartTrace() { core_->StartTrace(); }
std::vector<TraceEvent> Engine::StopTrace() { return core_->StopTrace(); }
void Engine::Drain() { core_->Drain(); }

}  // namespace restow::swap
