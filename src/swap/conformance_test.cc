// The conformance suite on this library's devices.
#include "swap/testing/conformance.h"

#include <cstring>
#include <mutex>
#include <thread>

#include "restow/swap/host_device.h"
#include "swap/fake/fake_device.h"

namespace restow::swap {
namespace {

class FakeUnderTest : public DeviceUnderTest {
 public:
  explicit FakeUnderTest(FakeOptions options)
      : fake_(std::make_shared<FakeDevice>(std::move(options))) {}
  std::shared_ptr<Device> device() override { return fake_; }
  DeviceBuffer Make(std::size_t bytes, std::uint64_t seed) override {
    DeviceBuffer memory = fake_->Allocate(bytes, fake_->CurrentStream());
    fake_->Fill(*memory, seed, 1e-3);
    return memory;
  }
  bool Holds(DeviceMemory& memory, std::size_t offset, std::size_t bytes, std::uint64_t seed,
             std::size_t skip) override {
    return fake_->Holds(memory, offset, bytes, seed, skip);
  }
  std::string Errors() override {
    std::string all;
    for (const std::string& error : fake_->errors()) all += error + "\n";
    return all;
  }

 private:
  std::shared_ptr<FakeDevice> fake_;
};

unsigned char PatternByte(std::uint64_t seed, std::size_t i) {
  return static_cast<unsigned char>(seed * 37 + i * 11 + (i >> 8));
}

// `threaded`: compute runs on a stream with a thread of its own, so nothing is in time by luck.
class HostUnderTest : public DeviceUnderTest {
 public:
  explicit HostUnderTest(bool threaded) : host_(MakeHostDevice()) {
    if (threaded) compute_ = host_->NewStream();
  }
  std::shared_ptr<Device> device() override {
    host_->SetCurrentStream(compute_);
    return host_;
  }
  DeviceBuffer Make(std::size_t bytes, std::uint64_t seed) override {
    host_->SetCurrentStream(compute_);
    DeviceBuffer memory = host_->Allocate(bytes, compute_);
    host_->Run(compute_, [this, memory, bytes, seed] {
      auto* data = static_cast<unsigned char*>(host_->HostAddress(*memory));
      for (std::size_t i = 0; i < bytes; ++i) data[i] = PatternByte(seed, i);
    });
    return memory;
  }
  bool Holds(DeviceMemory& memory, std::size_t offset, std::size_t bytes, std::uint64_t seed,
             std::size_t skip) override {
    bool holds = true;
    host_->Run(compute_, [&] {
      const auto* data = static_cast<const unsigned char*>(host_->HostAddress(memory));
      for (std::size_t i = 0; i < bytes; ++i) {
        holds = holds && data[offset + i] == PatternByte(seed, skip + i);
      }
    });
    host_->Synchronize(compute_);
    return holds;
  }

 private:
  std::shared_ptr<HostDevice> host_;
  Stream compute_;
};

FakeOptions Fake(int streams, bool frees_in_order) {
  FakeOptions options;
  options.out_bytes_per_s = options.in_bytes_per_s = 1e7;
  options.capabilities.copy_streams = streams;
  options.frees_in_order = frees_in_order;
  return options;
}

template <class Under, class... Arguments>
DeviceFactory Factory(const std::string& name, Arguments... arguments) {
  return {name, [=] { return std::make_unique<Under>(arguments...); }};
}

INSTANTIATE_TEST_SUITE_P(
    Devices, DeviceConformance,
    testing::Values(Factory<FakeUnderTest>("Fake", Fake(2, true)),
                    Factory<FakeUnderTest>("FakeWithOneCopyStream", Fake(1, true)),
                    Factory<FakeUnderTest>("FakeWithoutCopyStream", Fake(0, true)),
                    Factory<FakeUnderTest>("FakeThatFreesAtOnce", Fake(2, false)),
                    Factory<HostUnderTest>("Host", false),
                    Factory<HostUnderTest>("HostWithThreadedCompute", true)),
    NameOf);

}  // namespace
}  // namespace restow::swap
