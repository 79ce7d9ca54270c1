#include "swap/testing/program.h"

#include <atomic>

namespace restow::swap {

Storage NewStorage(FakeDevice& device, std::size_t bytes, std::uint64_t seed,
                   const std::string& label, double seconds) {
  static std::atomic<std::uint64_t> identities{1};
  Storage storage;
  storage.identity = identities.fetch_add(1);
  storage.bytes = bytes;
  storage.memory = device.Allocate(bytes, device.CurrentStream());
  device.Fill(*storage.memory, seed, seconds, label);
  return storage;
}

std::vector<Layer> EqualLayers(int count, std::size_t bytes, double forward_s, double backward_s) {
  std::vector<Layer> layers;
  for (int i = 0; i < count; ++i) {
    layers.push_back({std::string(1, static_cast<char>('a' + i)), {bytes}, forward_s, backward_s});
  }
  return layers;
}

void Program::RunForward(std::size_t i) {
  const Layer& layer = layers_[i];
  RegionOptions options;
  options.site = layer.label;
  options.min_bytes = 0;
  Region region = engine_.Begin(options);
  slots_.emplace_back();
  double seconds = layer.forward_s;
  for (const std::size_t bytes : layer.saves) {
    const std::uint64_t seed = next_++;
    const Storage storage = NewStorage(*device_, bytes, seed, layer.label, seconds);
    seconds = 0;
    slots_.back().push_back({region.Pack(storage), seed, bytes});
  }
}

void Program::RunBackward(std::size_t i) {
  std::vector<Slot::Unpacked> used;
  for (std::size_t k = slots_[i].size(); k-- > 0;) {
    Saved& saved = slots_[i][k];
    used.push_back(saved.slot.Unpack());
    if (!device_->Holds(*used.back().memory, used.back().offset, saved.bytes, saved.seed)) ++wrong_;
  }
  std::vector<DeviceMemory*> reads;
  for (const Slot::Unpacked& one : used) reads.push_back(one.memory.get());
  device_->Compute(layers_[i].label, layers_[i].backward_s, reads, {});
}

void Program::Forward() {
  slots_.clear();
  for (std::size_t i = 0; i < layers_.size(); ++i) RunForward(i);
}

void Program::Backward() {
  for (std::size_t i = slots_.size(); i-- > 0;) {
    RunBackward(i);
    slots_.pop_back();
  }
}

StepTimes Program::Step(bool apart) {
  StepTimes times;
  const double begin = device_->Time();
  Forward();
  if (apart) device_->WaitAll();
  times.forward_s = device_->Time() - begin;
  Backward();
  device_->WaitAll();
  times.total_s = device_->Time() - begin;
  times.backward_s = times.total_s - times.forward_s;
  return times;
}

}  // namespace restow::swap
