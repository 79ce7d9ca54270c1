#include "engine/torch_device.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "engine/internal_ops.h"
#include "engine/storage.h"
#include "restow/swap/host_bytes.h"

namespace restow::libtorch {
namespace {

using c10::impl::VirtualGuardImpl;

double Clock() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

c10::Stream ToTorch(swap::Stream stream, c10::Device device) {
  return c10::Stream(c10::Stream::UNSAFE, device, static_cast<c10::StreamId>(stream.id));
}
swap::Stream FromTorch(const c10::Stream& stream) {
  return {static_cast<std::uint64_t>(stream.id())};
}

// Device and stream for a scope; asks the backend only where something changes.
class OnStream {
 public:
  OnStream(const VirtualGuardImpl& impl, c10::Device device, swap::Stream stream)
      : impl_(impl), before_device_(impl.getDevice()), before_(impl.getStream(device)) {
    if (before_device_ != device) impl_.setDevice(device);
    changed_ = static_cast<std::uint64_t>(before_.id()) != stream.id;
    if (changed_) impl_.exchangeStream(ToTorch(stream, device));
    device_changed_ = before_device_ != device;
  }
  ~OnStream() {
    if (changed_) impl_.exchangeStream(before_);
    if (device_changed_) impl_.uncheckedSetDevice(before_device_);
  }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  const VirtualGuardImpl& impl_;
  c10::Device before_device_;
  c10::Stream before_;
  bool changed_ = false, device_changed_ = false;
};

struct Watched final : swap::StorageWatch {
  explicit Watched(const c10::Storage& storage) : impl(storage.getWeakStorageImpl()) {}
  bool Alive() const noexcept override { return impl.use_count() > 0; }
  c10::weak_intrusive_ptr<c10::StorageImpl> impl;
};

struct TorchEvent final : swap::Event {
  explicit TorchEvent(c10::DeviceType type) : event(type, c10::EventFlag::BACKEND_DEFAULT) {}
  c10::Event event;
};
c10::Event& EventOf(swap::Event& event) { return static_cast<TorchEvent&>(event).event; }

const c10::Storage& StorageOf(swap::DeviceMemory& memory) {
  return static_cast<TorchMemory&>(memory).storage();
}

c10::Storage NewStorage(c10::Device device, c10::Allocator* allocator, std::size_t bytes) {
  return c10::Storage(c10::make_storage_impl(c10::StorageImpl::use_byte_size_t(),
                                             static_cast<std::int64_t>(bytes),
                                             allocator->allocate(bytes), allocator, true, device));
}

// Not by torch's allocator, whose memory is aligned to 64 bytes: files could not be read into it
// directly.
c10::Storage NewHostStorage(std::size_t bytes) {
  void* const data = swap::NewHostBytes(bytes);
  c10::DataPtr pointer(data, data, &swap::DeleteHostBytes, c10::DeviceType::CPU);
  return c10::Storage(c10::make_storage_impl(
      c10::StorageImpl::use_byte_size_t(), static_cast<std::int64_t>(bytes), std::move(pointer),
      c10::GetCPUAllocator(), true, c10::Device(c10::DeviceType::CPU)));
}

at::Tensor DeviceBytes(const c10::Storage& storage, std::size_t offset, std::size_t bytes) {
  return TensorOver(storage, at::kByte, {static_cast<std::int64_t>(bytes)}, {1},
                    static_cast<std::int64_t>(offset));
}

at::Tensor HostBytes(const void* data, std::size_t bytes) {
  static c10::Allocator* const none = nullptr;
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                       c10::DataPtr(const_cast<void*>(data), c10::DeviceType::CPU), none, false);
  return TensorOver(storage, at::kByte, {static_cast<std::int64_t>(bytes)}, {1}, 0);
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

swap::HostMemory Pageable(std::size_t bytes) {
  return {swap::NewHostBytes(bytes), bytes, false, nullptr};
}

class Accelerator final : public TorchDevice {
 public:
  explicit Accelerator(c10::Device device) : impl_(device.type()), device_(device) { Probe(); }

  const std::string& obstacle() const noexcept override { return obstacle_; }
  swap::Capabilities capabilities() const noexcept override { return can_; }

  swap::Stream CurrentStream() override { return FromTorch(impl_.getStream(device_)); }
  swap::Stream NewCopyStream(swap::Direction /*direction*/) override {
    return FromTorch(impl_.getNewStream(device_));
  }
  void Synchronize(swap::Stream stream) override {
    impl_.synchronizeStream(ToTorch(stream, device_));
  }

  std::unique_ptr<swap::Event> NewEvent() override {
    return std::make_unique<TorchEvent>(device_.type());
  }
  void Record(swap::Event& event, swap::Stream stream) override {
    EventOf(event).record(ToTorch(stream, device_));
  }
  void StreamWait(swap::Stream stream, swap::Event& event) override {
    EventOf(event).block(ToTorch(stream, device_));
  }
  bool Done(swap::Event& event) override { return EventOf(event).query(); }
  void HostWait(swap::Event& event) override { EventOf(event).synchronize(); }
  double EventSeconds(swap::Event& event) override {
    return origin_s_ + origin_->event.elapsedTime(EventOf(event)) * 1e-3;
  }
  double Now() override { return Clock(); }

  swap::DeviceBuffer Allocate(std::size_t bytes, swap::Stream stream) override {
    const OnStream on(impl_, device_, stream);
    return std::make_shared<TorchMemory>(
        NewStorage(device_, c10::GetAllocator(device_.type()), bytes), stream);
  }
  void NoteUse(swap::DeviceMemory& memory, swap::Stream stream) override {
    impl_.recordDataPtrOnStream(StorageOf(memory).data_ptr(), ToTorch(stream, device_));
  }

  swap::HostMemory AllocateHost(std::size_t bytes, bool pinned) override {
    if (!pinned) return Pageable(bytes);
    auto data =
        std::make_unique<c10::DataPtr>(at::getHostAllocator(device_.type())->allocate(bytes));
    void* const address = data->get();
    return {address, bytes, true, data.release()};
  }
  void FreeHost(const swap::HostMemory& memory) noexcept override {
    if (memory.token == nullptr) return swap::DeleteHostBytes(memory.data);
    delete static_cast<c10::DataPtr*>(memory.token);
  }

  void CopyOut(void* to, swap::DeviceMemory& from, std::size_t offset, std::size_t bytes,
               swap::Stream stream) override {
    const at::Tensor source = DeviceBytes(StorageOf(from), offset, bytes);
    Copy(HostBytes(to, bytes), source, stream);
  }
  void CopyIn(swap::DeviceMemory& to, std::size_t offset, const void* from, std::size_t bytes,
              swap::Stream stream) override {
    const at::Tensor target = DeviceBytes(StorageOf(to), offset, bytes);
    Copy(target, HostBytes(from, bytes), stream);
  }
  // One operator for all pieces that lie side by side, as those do whose sizes need no filling up.
  void Gather(swap::DeviceMemory& to, std::span<const Piece> pieces, swap::Stream stream) override {
    const InternalOps internal;
    const OnStream on(impl_, device_, stream);
    std::vector<at::Tensor> sources;
    for (std::size_t first = 0, end = 0; first < pieces.size(); first = end) {
      sources.clear();
      std::size_t bytes = 0;
      for (; end < pieces.size() && pieces[end].at == pieces[first].at + bytes; ++end) {
        const Piece& piece = pieces[end];
        sources.push_back(DeviceBytes(StorageOf(*piece.from), piece.offset, piece.bytes));
        bytes += piece.bytes;
      }
      at::Tensor target = DeviceBytes(StorageOf(to), pieces[first].at, bytes);
      if (sources.size() == 1) {
        target.copy_(sources.front(), /*non_blocking=*/true);
      } else {
        at::cat_out(target, sources);
      }
    }
  }
  void CopyOnDevice(swap::DeviceMemory& to, std::size_t to_offset, swap::DeviceMemory& from,
                    std::size_t from_offset, std::size_t bytes, swap::Stream stream) override {
    Copy(DeviceBytes(StorageOf(to), to_offset, bytes),
         DeviceBytes(StorageOf(from), from_offset, bytes), stream);
  }

 private:
  void Copy(const at::Tensor& to, const at::Tensor& from, swap::Stream stream) {
    const InternalOps internal;
    const OnStream on(impl_, device_, stream);
    to.copy_(from, /*non_blocking=*/true);
  }

  void Probe() {
    at::globalContext().lazyInitDevice(device_.type());  // before it, no memory counts as pinned
    can_.timed_events = true;
    can_.copies_on_device = true;
    const c10::Stream current = impl_.getStream(device_);
    const c10::Stream other = impl_.getNewStream(device_);
    if (other == current) can_.copy_streams = 0;
    can_.pinned_memory = CanPin();
    can_.async_copies = can_.pinned_memory && can_.copy_streams > 0;
    ProbeBytes();
    ProbeTime();
  }

  bool CanPin() {
    try {
      const swap::HostMemory memory = AllocateHost(64, true);
      const bool pinned = at::globalContext().isPinnedPtr(memory.data, device_.type());
      FreeHost(memory);
      return pinned;
    } catch (const std::exception&) {
      return false;
    }
  }

  // A backend with a private layout refuses to read a tensor as bytes.
  void ProbeBytes() {
    try {
      const InternalOps internal;
      const at::Tensor probe =
          at::zeros({16}, at::TensorOptions().dtype(at::kFloat).device(device_));
      std::byte copy[64];
      const swap::Stream stream = CurrentStream();
      HostBytes(copy, sizeof(copy)).copy_(DeviceBytes(probe.storage(), 0, sizeof(copy)));
      Synchronize(stream);
    } catch (const std::exception& error) {
      obstacle_ = "the bytes of a tensor on " + device_.str() + " cannot be copied (" +
                  FirstLine(error.what()) + ")";
    }
  }

  void ProbeTime() {
    try {
      origin_ = std::make_unique<TorchEvent>(device_.type());
      const c10::Stream stream = impl_.getStream(device_);
      origin_->event.record(stream);
      origin_s_ = Clock();
      TorchEvent second(device_.type());
      second.event.record(stream);
      second.event.synchronize();
      origin_->event.elapsedTime(second.event);
    } catch (const std::exception&) {
      can_.timed_events = false;
    }
  }

  VirtualGuardImpl impl_;
  c10::Device device_;
  swap::Capabilities can_;
  std::string obstacle_;
  std::unique_ptr<TorchEvent> origin_;
  double origin_s_ = 0;
};

// Everything has happened when a call returns.
class Cpu final : public TorchDevice {
 public:
  const std::string& obstacle() const noexcept override {
    static const std::string none;
    return none;
  }
  swap::Capabilities capabilities() const noexcept override {
    swap::Capabilities can;
    can.pinned_memory = false;
    can.async_copies = false;
    can.copy_streams = 0;
    can.copies_on_device = true;
    can.host_addressable = true;
    return can;
  }
  swap::Stream CurrentStream() override { return {}; }
  swap::Stream NewCopyStream(swap::Direction /*direction*/) override { return {}; }
  void Synchronize(swap::Stream /*stream*/) override {}
  std::unique_ptr<swap::Event> NewEvent() override { return std::make_unique<swap::Event>(); }
  void Record(swap::Event& /*event*/, swap::Stream /*stream*/) override {}
  void StreamWait(swap::Stream /*stream*/, swap::Event& /*event*/) override {}
  bool Done(swap::Event& /*event*/) override { return true; }
  void HostWait(swap::Event& /*event*/) override {}
  double Now() override { return Clock(); }

  swap::DeviceBuffer Allocate(std::size_t bytes, swap::Stream stream) override {
    return std::make_shared<TorchMemory>(NewHostStorage(bytes), stream);
  }
  void* HostAddress(swap::DeviceMemory& memory) override {
    return StorageOf(memory).data_ptr().get();
  }
  swap::HostMemory AllocateHost(std::size_t bytes, bool /*pinned*/) override {
    return Pageable(bytes);
  }
  void FreeHost(const swap::HostMemory& memory) noexcept override {
    swap::DeleteHostBytes(memory.data);
  }
  void CopyOut(void* to, swap::DeviceMemory& from, std::size_t offset, std::size_t bytes,
               swap::Stream /*stream*/) override {
    std::memcpy(to, Bytes(from) + offset, bytes);
  }
  void CopyIn(swap::DeviceMemory& to, std::size_t offset, const void* from, std::size_t bytes,
              swap::Stream /*stream*/) override {
    std::memcpy(Bytes(to) + offset, from, bytes);
  }
  void CopyOnDevice(swap::DeviceMemory& to, std::size_t to_offset, swap::DeviceMemory& from,
                    std::size_t from_offset, std::size_t bytes, swap::Stream /*stream*/) override {
    std::memcpy(Bytes(to) + to_offset, Bytes(from) + from_offset, bytes);
  }

 private:
  std::byte* Bytes(swap::DeviceMemory& memory) {
    return static_cast<std::byte*>(HostAddress(memory));
  }
};

}  // namespace

bool TorchMemory::FreesInOrderOf(swap::Stream stream) const noexcept {
  if (allocated_on_ == stream || storage_.device().is_cpu()) return true;
  try {
    const c10::Device device = storage_.device();
    VirtualGuardImpl(device.type())
        .recordDataPtrOnStream(storage_.data_ptr(), ToTorch(stream, device));
    return true;
  } catch (...) {
    return false;
  }
}

std::shared_ptr<const swap::StorageWatch> TorchMemory::Watch() const {
  return std::make_shared<Watched>(storage_);
}

std::shared_ptr<TorchDevice> OpenAccelerator(c10::Device device) {
  return std::make_shared<Accelerator>(device);
}

std::shared_ptr<TorchDevice> OpenCpu() { return std::make_shared<Cpu>(); }

}  // namespace restow::libtorch
