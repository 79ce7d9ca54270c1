#include "emulator/machine.h"

#include <chrono>

namespace restow::emulator {
namespace {

std::int64_t SteadyNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

constexpr Ticks kTicksPerNanosecond = kTicksPerSecond / 1'000'000'000;

}  // namespace

Machine::Machine() {
  Actor actor = kHost;
  for (int device = 0; device < kDevices; ++device) {
    for (int id = 0; id < kStreams; ++id) {
      StreamState& stream = devices[device].streams[id];
      stream.device = device;
      stream.id = id;
      stream.actor = ++actor;
    }
  }
  real_origin = SteadyNanoseconds();
}

Machine& TheMachine() {
  static Machine* const machine = new Machine;
  return *machine;
}

StreamState& StreamOf(Machine& m, int device, int stream) {
  return m.devices.at(device).streams.at(stream);
}

std::string ActorName(Actor actor) {
  if (actor == kHost) return "host";
  const int index = static_cast<int>(actor) - 1;
  return "emu:" + std::to_string(index / kStreams) + " stream " + std::to_string(index % kStreams);
}

Ticks HostNow(Machine& m) {
  if (m.options.clock == ClockKind::kVirtual) return m.host_now;
  return (SteadyNanoseconds() - m.real_origin) * kTicksPerNanosecond;
}

void SpendHost(Machine& m, Ticks ticks) {
  if (m.options.clock == ClockKind::kVirtual) m.host_now += ticks;
}

void WaitHost(Machine& m, Lock& lock, Ticks until) {
  const Ticks now = HostNow(m);
  if (until <= now) return;
  m.host_wait += until - now;
  if (m.options.clock == ClockKind::kVirtual) {
    m.host_now = until;
    return;
  }
  lock.unlock();
  std::this_thread::sleep_for(std::chrono::nanoseconds((until - now) / kTicksPerNanosecond + 1));
  lock.lock();
}

void ResetTime(Machine& m) {
  ++m.clock_starts;
  m.host_now = 0;
  m.host_wait = 0;
  m.real_origin = SteadyNanoseconds();
  m.trace.clear();
  for (DeviceState& device : m.devices) {
    device.compute.Clear();
    device.h2d.Clear();
    device.d2h.Clear();
    for (StreamState& stream : device.streams) stream.ready = 0;
  }
}

void AddTrace(Machine& m, const std::string& name, const StreamState& stream, Span span) {
  if (!m.options.trace) return;
  m.trace.push_back({name, stream.device, stream.id, ToSeconds(span.begin), ToSeconds(span.end)});
}

}  // namespace restow::emulator
