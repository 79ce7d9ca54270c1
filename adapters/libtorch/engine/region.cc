#include "engine/region.h"

#include <c10/core/impl/SizesAndStrides.h>
#include <torch/csrc/autograd/variable.h>

#include <new>
#include <optional>

#include "engine/compat.h"
#include "engine/guard.h"
#include "engine/host.h"
#include "engine/torch_device.h"

namespace restow::libtorch {
namespace {

thread_local std::vector<SavingRegion*> open_regions;

// A slot of the core. After a fork the child leaves the parent's alone.
class Claim {
 public:
  explicit Claim(swap::Slot slot) : slot_(std::move(slot)) {}
  ~Claim() {
    if (generation_ != ProcessGeneration()) new swap::Slot(std::move(slot_));
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  const swap::Slot& operator*() const { return slot_; }

 private:
  swap::Slot slot_;
  std::uint32_t generation_ = ProcessGeneration();
};

// Stays where it is: the tensor's own memory, held by an alias.
class KeptSlot final : public SavedSlot {
 public:
  KeptSlot(const at::Tensor& tensor, const std::string& place, swap::Slot claim)
      : alias_(AliasOf(tensor)), guard_(tensor, place), claim_(std::move(claim)) {}

  at::Tensor Unpack() override {
    guard_.Check();
    // A tensor of its own: autograd hangs its history on it.
    return AliasOf(alias_);
  }

 private:
  at::Tensor alias_;
  VersionGuard guard_;
  Claim claim_;
};

// Moves: the core holds the storage, this the way the tensor lies in it.
class MovedSlot final : public SavedSlot {
 public:
  MovedSlot(const at::Tensor& tensor, const Span& span, const std::string& place, swap::Slot slot)
      : guard_(tensor, place),
        slot_(std::move(slot)),
        dtype_(tensor.scalar_type()),
        start_(static_cast<std::size_t>(tensor.storage_offset()) * tensor.element_size() -
               span.offset) {
    layout_.set_sizes(tensor.sizes());
    layout_.set_strides(tensor.strides());
  }

  at::Tensor Unpack() override {
    guard_.Check();
    const LockPause pause;
    const swap::Slot::Unpacked there = (*slot_).Unpack();
    const auto& memory = static_cast<const TorchMemory&>(*there.memory);
    const std::size_t item = c10::elementSize(dtype_);
    return TensorOver(memory.storage(), dtype_, layout_.sizes_arrayref(),
                      layout_.strides_arrayref(),
                      static_cast<std::int64_t>((there.offset + start_) / item));
  }

 private:
  VersionGuard guard_;
  Claim slot_;
  at::ScalarType dtype_;
  std::size_t start_;  // bytes from the saved part to the first element
  c10::impl::SizesAndStrides layout_;
};

Record RecordOf(const at::Tensor& tensor) {
  Record record;
  record.standing = StandingOf(tensor);
  if (tensor.is_nested() || tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) {
    return record;
  }
  record.dims = static_cast<std::int8_t>(std::min<std::int64_t>(tensor.dim(), 127));
  const int dims = std::min<int>(record.dims, Record::kDims);
  for (int i = 0; i < dims; ++i) record.sizes.at(static_cast<std::size_t>(i)) = tensor.size(i);
  return record;
}

}  // namespace

SavingRegion::SavingRegion(RegionSpec spec) : spec_(std::move(spec)), site_(SiteOf(spec_.site)) {
  const std::lock_guard<std::mutex> lock(site_.mutex);
  records_.reserve(site_.records.size());
}

SavingRegion::~SavingRegion() { End(); }

std::shared_ptr<SavedSlot> SavingRegion::Pack(const at::Tensor& tensor) {
  Record record = RecordOf(tensor);
  if (record.standing != Standing::kMovable) return Keep(tensor, record, "");
  record.tag = marks_.Find(tensor.storage().unsafeGetStorageImpl());
  swap::Decision decision = swap::Decision::kAutomatic;
  if (spec_.policy) decision = spec_.policy(tensor);
  if (spec_.mode == RegionMode::kKeep) decision = swap::Decision::kKeep;
  if (record.tag >= 0) decision = swap::Decision::kSwap;
  return Ask(tensor, decision, record);
}

std::shared_ptr<SavedSlot> SavingRegion::PackAs(const at::Tensor& tensor, swap::Decision decision) {
  Record record = RecordOf(tensor);
  if (record.standing != Standing::kMovable) return Keep(tensor, record, "");
  return Ask(tensor, decision, record);
}

std::shared_ptr<SavedSlot> SavingRegion::Keep(const at::Tensor& tensor, Record& record,
                                              const std::string& because) {
  if (record.standing == Standing::kMovable) {
    record.bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  }
  record.because = because;
  auto slot = std::make_shared<KeptSlot>(tensor, site_.name, swap::Slot());
  Note(std::move(record));
  return slot;
}

std::shared_ptr<SavedSlot> SavingRegion::Ask(const at::Tensor& tensor, swap::Decision decision,
                                             Record& record) {
  const std::shared_ptr<Opened> opened = OpenedFor(tensor.device());
  if (opened == nullptr) return Keep(tensor, record, "saved after its region had ended");
  if (!opened->engine->obstacle.empty() && decision != swap::Decision::kKeep) {
    return Keep(tensor, record, opened->engine->obstacle);
  }
  const Span span = SpanOf(tensor);
  const c10::VariableVersion& version = torch::autograd::impl::version_counter(tensor);
  swap::Storage storage;
  c10::StorageImpl* const impl = tensor.storage().unsafeGetStorageImpl();
  storage.identity = reinterpret_cast<std::uint64_t>(impl);
  storage.version = reinterpret_cast<std::uint64_t>(AddressOf(version)) * 0x9E3779B97F4A7C15u +
                    (version.enabled() ? version.current_version() : 0);
  storage.offset = span.offset;
  storage.bytes = span.bytes;
  storage.memory = std::make_shared<TorchMemory>(tensor.storage());
  swap::Slot slot;
  {
    const LockPause pause;
    slot = opened->region.Pack(storage, decision);
  }
  record.asked = true;
  record.reason = slot.reason();
  record.bytes = static_cast<std::int64_t>(span.bytes);
  record.identity = impl;
  record.to_keep = decision == swap::Decision::kKeep;
  const bool kept = !Moves(record.reason);
  if (!kept) record.storage = tensor.storage().getWeakStorageImpl();
  Note(std::move(record));
  if (kept) return std::make_shared<KeptSlot>(tensor, site_.name, std::move(slot));
  return std::make_shared<MovedSlot>(tensor, span, site_.name, std::move(slot));
}

std::shared_ptr<SavingRegion::Opened> SavingRegion::OpenedFor(c10::Device device) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return nullptr;
    for (auto& one : opened_) {
      if (one->engine->name == device) return one;
    }
  }
  auto fresh = std::make_shared<Opened>();
  fresh->engine = EngineOf(device, spec_.pool);
  swap::RegionOptions options;
  options.site = spec_.site;
  options.group = spec_.group;
  options.steering = spec_.steering;
  options.place = fresh->engine->to_file ? swap::Place::kFile : spec_.place;
  if (!fresh->engine->obstacle.empty()) options.place = swap::Place::kHost;
  options.fuse = spec_.fuse;
  options.min_bytes = spec_.min_bytes;
  fresh->region = fresh->engine->engine->Begin(options);
  const std::lock_guard<std::mutex> lock(mutex_);
  opened_.push_back(fresh);
  return fresh;
}

void SavingRegion::Note(Record&& record) {
  const std::lock_guard<std::mutex> lock(mutex_);
  record.again = record.asked && record.reason == swap::Reason::kShared;
  if (record.again) Reconcile(record);
  if (record.standing != Standing::kParameter && !record.again) {
    const bool moved = record.asked && Moves(record.reason);
    (moved ? bytes_.swapped : bytes_.kept) += record.bytes;
  }
  records_.push_back(std::move(record));
}

// One storage has one fate: a view that is to stay keeps those that were to move, and the reverse.
// Looks back as far as the storage's first save, which is near as a rule.
void SavingRegion::Reconcile(Record& record) {
  if (record.to_keep) record.reason = swap::Reason::kKeptByCaller;
  for (auto other = records_.rbegin(); other != records_.rend(); ++other) {
    if (other->identity != record.identity || !other->asked) continue;
    if (!Moves(other->reason)) {
      record.reason = other->reason;
    } else if (record.to_keep) {
      if (!other->again) {
        bytes_.swapped -= other->bytes;
        bytes_.kept += other->bytes;
      }
      other->reason = swap::Reason::kKeptByCaller;
    }
    if (!other->again) return;
  }
}

void SavingRegion::End() noexcept {
  std::vector<std::shared_ptr<Opened>> opened;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return;
    ended_ = true;
    opened.swap(opened_);
  }
  for (auto& one : opened) one->region.End();
  std::vector<Record> records;
  const std::lock_guard<std::mutex> lock(site_.mutex);
  records.swap(records_);
  if (records.empty()) return;
  bytes_.invocations = site_.bytes.invocations + 1;
  site_.bytes = bytes_;
  site_.label = label();
  site_.records.swap(records);
}

SavingRegion* InnermostRegion() { return open_regions.empty() ? nullptr : open_regions.back(); }

void EnterRegion(const std::shared_ptr<SavingRegion>& region) {
  open_regions.push_back(region.get());
}

void LeaveRegion(const std::shared_ptr<SavingRegion>& region) noexcept {
  const auto found = std::find(open_regions.rbegin(), open_regions.rend(), region.get());
  if (found != open_regions.rend()) open_regions.erase(std::next(found).base());
  region->End();
}

}  // namespace restow::libtorch
