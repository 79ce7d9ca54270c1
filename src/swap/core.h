// The engine behind the public face: one table, one lock, and the moves of units.
//
// Every move has the same shape. Under the lock a thread *claims* a unit; without the lock it calls
// the device; under the lock again it writes the outcome down and ends the claim. Whoever needs a
// claimed unit waits on a condition. A thread that holds a claim never waits for another unit's
// claim, so claims cannot form a circle. What must be destroyed goes into a Trash and is destroyed
// after the lock is released.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "restow/swap/engine.h"
#include "swap/host_pool.h"
#include "swap/key_table.h"
#include "swap/recorder.h"
#include "swap/schedule.h"
#include "swap/table_lock.h"
#include "swap/unit.h"

namespace restow::swap {

// Units launched and awaited together.
struct Group {
  std::string name;
  UnitList<&Unit::in_group> units;
  bool offload_launched = false, load_launched = false;
};

// One invocation of a region while it is open.
struct RegionState {
  Schedule::Site* site = nullptr;
  Invocation* invocation = nullptr;  // from the first pack on: runs that save nothing do not count
  std::shared_ptr<Group> group;
  bool manual = false, to_file = false, fuse = false;
  std::size_t min_bytes = 0;
  std::uint32_t next_index = 0;
  Unit* batch = nullptr;  // fused unit that still takes pieces
};

inline Key KeyOf(const Storage& storage) {
  return {storage.identity, storage.version, storage.offset, storage.bytes};
}

struct Packed {
  Unit* unit = nullptr;
  std::uint32_t piece = 0;
  Reason reason = Reason::kSwapped;
};

class Core {
 public:
  // Owned by its handles (an engine, regions) and its slots: the last one deletes it. They are
  // counted under the lock, which a slot takes anyway.
  Core(std::shared_ptr<Device> device, Options options);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  void AddHandle();
  void DropHandle() noexcept;
  RegionState* Begin(const RegionOptions& options);
  void End(RegionState* region) noexcept;
  Packed Pack(RegionState& region, const Storage& storage, Decision decision);
  Slot::Unpacked Unpack(Unit& unit, std::uint32_t piece);
  void Release(Unit& unit) noexcept;

  void Step();
  void GiveOrder(const std::vector<UseName>& order);
  void Forget(std::uint64_t identity);

  void LaunchOffload(std::string_view group);
  void WaitOffload(std::string_view group);
  void LaunchLoad(std::string_view group);
  void WaitLoad(std::string_view group);
  void DropGroup(std::string_view group);
  std::vector<std::string> GroupNames();

  Stats GetStats();
  void ResetStats();
  void CountRecomputedRegion();
  std::vector<Transition> Recorded();
  std::vector<std::string> Diagnose(double older_than_s);
  void StartTrace();
  std::vector<TraceEvent> StopTrace();
  void Drain();
  const Options& options() const { return options_; }
  void Trouble(const std::string& what) noexcept;  // tells on_trouble

 private:
  ~Core();

  // The lock, and what is let go of once it is released.
  struct Locked {
    explicit Locked(Core& owner) : core(owner), guard(owner.lock_) {}
    ~Locked() {
      if (guard.owns_lock()) guard.unlock();
      core.Sweep(trash);
    }
    Core& core;
    Trash trash;
    Guard guard;
  };
  // Two events; what lies between them is a stall, or a copy for the trace.
  struct Probe {
    bool stall = false;
    EventRef first, second;
    TraceEvent event;
  };

  // core.cc: the table. All under the lock.
  Unit& NewUnit(RegionState& region);
  void Enlist(RegionState& region, Unit& unit);
  void AddPiece(Unit& unit, const Storage& storage);
  void Move(Unit& unit, Change change, double now_s);
  void CountBrought(Unit& unit, bool brought);
  void NoteUsed(Unit& unit, Trash& trash);
  void Hold(Unit& unit);  // claims a unit that nobody has claimed
  void WaitForClaims(Guard& guard);
  void Claim(Unit& unit, Guard& guard);
  void Unclaim(Unit& unit, Trash& trash);
  void Bury(Unit& unit, Trash& trash);
  DeviceBuffer BuryUntouched(Unit& unit);
  void BuryAndSweep(Unit& unit, Guard& guard) noexcept;
  void DropKeys(Unit& unit);
  void DropKey(Unit& unit, std::uint32_t piece);
  void LetMemoryGo(Unit& unit, Trash& trash);
  void LetBlockGo(Unit& unit, Trash& trash);
  void GiveUp(Unit& unit, Change change, Trash& trash, double now_s);
  void Failed(std::int64_t Stats::*counter) noexcept;
  void Sweep(Trash& trash) noexcept;
  double Now() noexcept;

  // pack.cc
  Reason Decide(RegionState& region, Unit& unit, Decision decision) const;
  Packed AddToBatch(RegionState& region, const Storage& storage, Unit*& full);
  void Keep(Unit& unit, const Storage& storage);
  Reason SendOut(Unit& unit, Stream stream);
  void CloseBatch(Unit& unit, bool manual) noexcept;

  // unpack.cc
  bool ReadyOn(const Unit& unit, Stream stream) const;
  void BringBack(Unit& unit, Stream stream);
  [[noreturn]] void ThrowLost(const Unit& unit);
  void WaitReady(Unit& unit, Stream stream);
  void CountStall(Unit& unit, Stream stream);
  void Advance(Unit& used, Stream stream) noexcept;
  Unit* NextWanted(Unit& used);
  enum class Wish { kNone, kSeen, kMove, kStop };
  Wish WishFor(Unit& unit, int seen) const;
  bool MoveCloser(Unit& unit, Stream stream);

  // copies.cc: device calls for one claimed unit, without the lock.
  Stream OutStream(Stream compute) const { return own_out_ ? out_ : compute; }
  Stream InStream(Stream compute) const { return own_in_ ? in_ : compute; }
  Reason IssueOut(Unit& unit, Stream stream);
  void CopyPiecesOut(Unit& unit, const HostBlock& block, Stream compute, Stream out);
  void IssueIn(Unit& unit, Stream stream, bool demanded);
  DeviceBuffer Allocate(std::size_t bytes, Stream stream, bool demanded);
  bool Settle(Stream stream) noexcept;
  void Quarantine(std::vector<DeviceBuffer> memory) noexcept;
  EventRef TraceMark(Stream stream);
  void Trace(Unit& unit, Direction direction, EventRef begun, EventRef ended, double now_s);

  // relief.cc: what is under way.
  void Poll() noexcept;
  bool PollLeaving() noexcept;
  bool PollGrave() noexcept;
  bool PollProbe(bool wait) noexcept;
  bool PollTicket() noexcept;
  void Resolve(const Probe& probe) noexcept;
  void RelieveWindow(Stream stream) noexcept;
  bool LetGo(Unit& unit, const Stream* stream) noexcept;
  void Distrust(Unit& unit) noexcept;
  bool FreeDeviceMemory(Stream stream) noexcept;
  bool TakeBackOne() noexcept;
  Unit* ClaimLeaving();
  bool WaitGrave() noexcept;

  // spill.cc: the tier below.
  bool HasTier() const { return options_.tier != nullptr; }
  bool Direct() const { return capabilities_.host_addressable; }
  std::optional<HostBlock> TakeBlock(std::size_t bytes, const Unit* wanted_by) noexcept;
  bool FreeHostMemory(const Unit* wanted_by) noexcept;
  bool ReclaimBlock() noexcept;
  bool SpillOne(const Unit* wanted_by) noexcept;
  Unit* ClaimToSpill(const Unit* wanted_by);
  bool StartSpill(Unit& unit) noexcept;
  Reason StartDirectWrite(Unit& unit, Stream stream) noexcept;
  bool StartFetch(Unit& unit, Stream stream, bool demanded);
  bool StartDirectRead(Unit& unit, Stream stream, bool demanded);
  void FinishTicket(Unit& unit);
  void SpillAhead() noexcept;

  // groups.cc
  std::shared_ptr<Group> GroupOf(std::string_view name, const char* call);
  template <class Wanted, class Act>
  void ForUnits(Group& group, Wanted wanted, Act act);

  std::shared_ptr<Device> device_;
  Options options_;
  Capabilities capabilities_;
  std::shared_ptr<HostPool> pool_;
  std::size_t window_;
  Stream out_, in_;
  bool own_out_ = false, own_in_ = false;
  std::atomic<bool> tracing_{false};

  TableLock lock_;
  std::condition_variable_any claimed_;
  int waiters_ = 0;
  UnitPool units_;
  std::uint64_t next_id_ = 1;
  KeyTable keys_;
  Schedule schedule_;
  Recorder recorder_;
  UnitList<&Unit::alive> alive_;      // in order of pack
  UnitList<&Unit::leaving> leaving_;  // Offloading, Writing: oldest first
  UnitList<&Unit::hosted> hosted_;    // OnHost: oldest first
  UnitList<&Unit::hosted> waiting_;   // Spilling, Fetching, Reading
  std::map<std::string, std::shared_ptr<Group>, std::less<>> groups_;
  std::deque<Grave> graves_;
  std::deque<Probe> probes_;
  std::vector<TraceEvent> trace_;
  std::vector<DeviceBuffer> quarantine_;
  Unit* last_used_ = nullptr;
  Invocation* last_packer_ = nullptr;
  std::size_t leaving_bytes_ = 0, brought_bytes_ = 0, swapped_bytes_ = 0;
  std::int64_t live_slots_ = 0, live_units_ = 0, handles_ = 0;
  std::int64_t resident_blocks_ = 0;  // units that are Resident and have a host block all the same
  std::int64_t pool_allocations_before_ = 0, pin_failures_before_ = 0;
  int distance_;
  bool explicit_steps_ = false;
  Stats stats_;
};

}  // namespace restow::swap
