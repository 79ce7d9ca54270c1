// A region: what is saved while it is open is moved or kept, as its mode, the policy, sizes and the
// engine's state decide.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/engines.h"
#include "engine/marks.h"
#include "engine/provider.h"
#include "engine/site.h"

namespace restow::libtorch {

enum class RegionMode : std::uint8_t { kSwap, kKeep };

// Asked once per save of a movable tensor. May throw.
using Policy = std::function<swap::Decision(const at::Tensor&)>;

struct RegionSpec {
  std::string site;
  std::string group;  // empty: none
  RegionMode mode = RegionMode::kSwap;
  Policy policy;                // null: by size
  std::int64_t min_bytes = -1;  // -1: the process's
  swap::Place place = swap::Place::kHost;
  swap::Steering steering = swap::Steering::kAutomatic;
  bool fuse = false;  // small tensors travel in fused copies
  PoolPtr pool;       // null: the process's
};

class SavingRegion final : public Provider {
 public:
  explicit SavingRegion(RegionSpec spec);
  ~SavingRegion() override;

  std::shared_ptr<SavedSlot> Pack(const at::Tensor& tensor) override;
  // The same where the decision is made already.
  std::shared_ptr<SavedSlot> PackAs(const at::Tensor& tensor, swap::Decision decision);
  // Later saves are kept. Slots live on.
  void End() noexcept;

  Marks& marks() { return marks_; }
  const RegionSpec& spec() const { return spec_; }
  const std::string& label() const { return spec_.group.empty() ? site_.name : spec_.group; }

 private:
  struct Opened {
    DeviceEnginePtr engine;
    swap::Region region;
  };
  std::shared_ptr<SavedSlot> Keep(const at::Tensor& tensor, Record& record,
                                  const std::string& because);
  std::shared_ptr<SavedSlot> Ask(const at::Tensor& tensor, swap::Decision decision, Record& record);
  std::shared_ptr<Opened> OpenedFor(c10::Device device);
  void Note(Record&& record);
  void Reconcile(Record& record);

  RegionSpec spec_;
  Site& site_;
  Marks marks_;
  std::mutex mutex_;  // guards what follows; never held across a call into the engine that may wait
  bool ended_ = false;
  std::vector<std::shared_ptr<Opened>> opened_;
  std::vector<Record> records_;
  SiteBytes bytes_;
};

// The innermost region that this thread has open, for marks; null: none.
SavingRegion* InnermostRegion();

// Notes on this thread that `region` is open, and that it has ended. Whoever calls also makes it
// the thread's provider.
void EnterRegion(const std::shared_ptr<SavingRegion>& region);
void LeaveRegion(const std::shared_ptr<SavingRegion>& region) noexcept;

}  // namespace restow::libtorch
