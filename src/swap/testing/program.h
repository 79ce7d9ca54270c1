// A training step on the fake device: a chain of layers, each saving storages in forward and using
// them in backward. What tests of schedules run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "restow/swap/engine.h"
#include "swap/fake/fake_device.h"

namespace restow::swap {

struct Layer {
  std::string label;
  std::vector<std::size_t> saves;  // bytes
  double forward_s = 1, backward_s = 1;
};

struct StepTimes {
  double forward_s = 0, backward_s = 0;  // of the device's compute stream and copies, drained
  double total_s = 0;
};

// Runs steps of `layers`, each layer a region of its own; checks every byte that comes back.
class Program {
 public:
  Program(std::shared_ptr<FakeDevice> device, Engine& engine, std::vector<Layer> layers)
      : device_(std::move(device)), engine_(engine), layers_(std::move(layers)) {}

  void Forward();
  void Backward();
  // Forward and backward, the host waiting in between only when `apart`.
  StepTimes Step(bool apart = false);
  int wrong() const { return wrong_; }
  std::size_t live_slots() const { return slots_.size(); }

 private:
  struct Saved {
    Slot slot;
    std::uint64_t seed;
    std::size_t bytes;
  };
  void RunForward(std::size_t layer);
  void RunBackward(std::size_t layer);

  std::shared_ptr<FakeDevice> device_;
  Engine& engine_;
  std::vector<Layer> layers_;
  std::vector<std::vector<Saved>> slots_;
  std::uint64_t next_ = 1;
  int wrong_ = 0;
};

// `count` equal layers "a", "b", … saving one storage of `bytes` each.
std::vector<Layer> EqualLayers(int count, std::size_t bytes, double forward_s, double backward_s);

// A storage of its own on the current stream, filled with the pattern of `seed`.
Storage NewStorage(FakeDevice& device, std::size_t bytes, std::uint64_t seed,
                   const std::string& label = "s", double seconds = 0);

}  // namespace restow::swap
