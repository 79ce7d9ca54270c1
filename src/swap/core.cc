#include "swap/core.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "restow/base/check.h"
#include "restow/base/error.h"

namespace restow::swap {
namespace {

bool OnDevice(State state) {
  return state == State::kResident || state == State::kOffloading || state == State::kPrefetching ||
         state == State::kWriting || state == State::kReading;
}
bool Leaving(State state) { return state == State::kOffloading || state == State::kWriting; }
bool AtTier(State state) {
  return state == State::kSpilling || state == State::kFetching || state == State::kReading;
}

// Memory brought back may be dropped although its copy is under way: it is reused only by the
// stream that waits for the copy.
bool FreeInOrder(const Unit& unit) {
  return unit.waited && unit.home_ordered && unit.ready_on == unit.home;
}

// Claims of the calling thread; a thread that holds one must not wait for another.
[[gnu::tls_model("initial-exec")]] thread_local int claims = 0;

// Nobody knows whether a copy still touches this memory: it stays for the rest of the process.
void KeepForEver(DeviceBuffer memory) {
  static std::mutex mutex;
  static std::vector<DeviceBuffer>& kept = *std::make_unique<std::vector<DeviceBuffer>>().release();
  const std::lock_guard<std::mutex> lock(mutex);
  kept.push_back(std::move(memory));
}

std::shared_ptr<HostPool> PoolFor(const std::shared_ptr<Device>& device, const Options& options) {
  if (!options.pool) return MakeHostPool(device, {options.host_cap, options.pin_failure});
  if (options.pool->device() != device) {
    ThrowUsage("this host pool belongs to another device; engines share a pool on one device only");
  }
  return options.pool;
}

}  // namespace

Core::Core(std::shared_ptr<Device> device, Options options)
    : device_(std::move(device)),
      options_(std::move(options)),
      capabilities_(device_->capabilities()),
      pool_(PoolFor(device_, options_)),
      window_(static_cast<std::size_t>(std::max<std::int64_t>(options_.window.value(), 0))),
      recorder_(options_.recorded),
      distance_(std::clamp(options_.prefetch_distance, 0, options_.max_prefetch_distance)) {
  if (capabilities_.copy_streams >= 1) {
    out_ = in_ = device_->NewCopyStream(Direction::kOut);
    own_out_ = own_in_ = true;
  }
  if (capabilities_.copy_streams >= 2) in_ = device_->NewCopyStream(Direction::kIn);
}

// No slot and no region is left: they hold the core. Copies may still be under way.
Core::~Core() {
  while (WaitGrave()) {
  }
  for (DeviceBuffer& memory : quarantine_) KeepForEver(std::move(memory));
}

double Core::Now() noexcept {
  try {
    return device_->Now();
  } catch (...) {
    return 0;
  }
}

RegionState* Core::Begin(const RegionOptions& options) {
  if (options.place == Place::kFile && !HasTier()) {
    ThrowUsage("region '" + options.site +
               "' wants its tensors on file, but the engine has no file tier; give it a folder");
  }
  if (options.steering == Steering::kManual && options.group.empty()) {
    ThrowUsage("region '" + options.site + "' is steered by hand, which needs the name of a group");
  }
  auto region = std::make_unique<RegionState>();
  region->manual = options.steering == Steering::kManual;
  region->to_file = options.place == Place::kFile;
  region->fuse = options.fuse && capabilities_.copies_on_device;
  const std::int64_t least =
      options.min_bytes >= 0 ? options.min_bytes : options_.min_bytes.value();
  region->min_bytes = static_cast<std::size_t>(std::max<std::int64_t>(least, 0));
  Locked locked(*this);
  region->site = &schedule_.SiteOf(options.site);
  if (!options.group.empty()) {
    std::shared_ptr<Group>& group = groups_[options.group];
    if (!group) {
      group = std::make_shared<Group>();
      group->name = options.group;
    }
    region->group = group;
  }
  ++handles_;
  return region.release();
}

void Core::End(RegionState* region) noexcept {
  const std::unique_ptr<RegionState> owned(region);
  Unit* open = nullptr;
  {
    Locked locked(*this);
    open = std::exchange(region->batch, nullptr);
    if (open != nullptr) {
      open->open_in = nullptr;
      Hold(*open);
    }
  }
  if (open != nullptr) CloseBatch(*open, region->manual);
  DropHandle();
}

Unit& Core::NewUnit(RegionState& region) {
  if (alive_.empty() && !explicit_steps_) schedule_.Step();
  if (region.invocation == nullptr) region.invocation = &schedule_.NextInvocation(*region.site);
  last_packer_ = region.invocation;
  Unit& unit = units_.Take();
  unit.id = next_id_++;
  unit.invocation = region.invocation;
  unit.manual = region.manual;
  unit.to_file = region.to_file;
  alive_.PushBack(unit);
  ++region.next_index;
  ++live_units_;
  return unit;
}

// A unit that may move takes part in the schedule and in its group.
void Core::Enlist(RegionState& region, Unit& unit) {
  unit.touched = true;
  unit.name = schedule_.NameOf(*region.site, *region.invocation, region.next_index - 1);
  schedule_.Bind(unit.name, &unit);
  if (!region.group) return;
  unit.group = region.group;
  region.group->units.PushBack(unit);
}

void Core::AddPiece(Unit& unit, const Storage& storage) {
  const auto index = static_cast<std::uint32_t>(unit.pieces.size());
  Piece& piece = unit.pieces.Add();
  piece.memory = storage.memory;
  piece.key = KeyOf(storage);
  if (index > 0) piece.at = unit.bytes;
  piece.keyed = storage.identity != 0;
  if (index == 0) unit.hash = KeyTable::Hash(storage.identity);
  unit.bytes += storage.bytes;
  unit.invocation->bytes_next += storage.bytes;
  if (piece.keyed) keys_.Insert(unit, index);
}

// The one door through which states change.
void Core::Move(Unit& unit, Change change, double now_s) {
  const State from = unit.state, to = Apply(from, change);
  recorder_.Add(now_s, unit.id, unit.bytes, from, change, to);
  if (unit.block) {
    resident_blocks_ += (to == State::kResident ? 1 : 0) - (from == State::kResident ? 1 : 0);
  }
  if (Leaving(from)) {
    leaving_.Remove(unit);
    leaving_bytes_ -= unit.bytes;
  }
  if (from == State::kOnHost) hosted_.Remove(unit);
  if (AtTier(from)) waiting_.Remove(unit);
  if (!OnDevice(from)) swapped_bytes_ -= unit.bytes;
  unit.state = to;
  if (Leaving(to)) {
    leaving_.PushBack(unit);
    leaving_bytes_ += unit.bytes;
  }
  if (to == State::kOnHost) hosted_.PushBack(unit);
  if (AtTier(to)) waiting_.PushBack(unit);
  if (!OnDevice(to)) swapped_bytes_ += unit.bytes;
}

void Core::CountBrought(Unit& unit, bool brought) {
  if (unit.brought == brought) return;
  unit.brought = brought;
  if (brought) {
    brought_bytes_ += unit.bytes;
  } else {
    brought_bytes_ -= unit.bytes;
  }
}

// A unit is used: the schedule learns, and the unit used before stops counting as brought.
void Core::NoteUsed(Unit& unit, Trash& trash) {
  if (unit.name != kNoName) schedule_.Used(unit.name);
  if (unit.invocation == last_packer_) unit.invocation->last_next = true;
  Unit* before = std::exchange(last_used_, &unit);
  if (before == nullptr || before == &unit) return;
  CountBrought(*before, false);
  if (options_.keep_after_use || before->busy || before->kept || before->ticket != 0) return;
  if (before->state != State::kResident || before->native) return;
  // Memory of ours, which its stream was made to wait for: it may go, another copy exists.
  if (!before->ready.SeenDone() && !FreeInOrder(*before)) return;
  if (before->host_valid) {
    GiveUp(*before, Change::kGiveUp, trash, 0);
  } else if (before->extent.bytes != 0) {
    GiveUp(*before, Change::kShed, trash, 0);
  }
}

void Core::Hold(Unit& unit) {
  RESTOW_CHECK(!unit.busy);
  unit.busy = unit.touched = true;
  ++claims;
}

// Until some claim ends. Whoever waits here holds none himself, so claims form no circle.
void Core::WaitForClaims(Guard& guard) {
  RESTOW_CHECK(claims == 0);
  ++waiters_;
  claimed_.wait(guard);
  --waiters_;
}

void Core::Claim(Unit& unit, Guard& guard) {
  while (unit.busy) WaitForClaims(guard);
  Hold(unit);
}

void Core::Unclaim(Unit& unit, Trash& trash) {
  unit.busy = false;
  --claims;
  if (unit.slots == 0 && unit.open_in == nullptr) Bury(unit, trash);
  if (waiters_ > 0) claimed_.notify_all();
}

void Core::Release(Unit& unit) noexcept {
  DeviceBuffer memory;  // dropped after the lock
  bool last = false;
  UnitPool::Prefetch(unit);
  keys_.Prefetch(unit.hash);
  {
    Guard guard(lock_);
    if (--unit.slots == 0 && !unit.busy) {
      if (unit.touched) {
        BuryAndSweep(unit, guard);
      } else {
        memory = BuryUntouched(unit);
      }
    }
    // Counted down only now: the pool and the tier were still needed.
    last = --live_slots_ == 0 && handles_ == 0;
  }
  memory.reset();
  if (last) delete this;
}

// Apart from Release, whose frame would else hold a Trash for each tensor that was only kept.
[[gnu::noinline]] void Core::BuryAndSweep(Unit& unit, Guard& guard) noexcept {
  {
    Trash trash;
    Bury(unit, trash);
    guard.unlock();
    Sweep(trash);
  }
  guard.lock();
}

// The last slot of a unit that was only ever kept: little is to be undone.
DeviceBuffer Core::BuryUntouched(Unit& unit) {
  Piece& piece = unit.pieces.front();
  if (piece.keyed) keys_.Erase(unit, 0);
  alive_.Remove(unit);
  if (last_used_ == &unit) last_used_ = nullptr;
  DeviceBuffer memory = std::move(piece.memory);
  unit.pieces.Forget();
  static_cast<UnitCore&>(unit) = UnitCore();
  units_.Give(unit);
  --live_units_;
  return memory;
}

void Core::DropKeys(Unit& unit) {
  for (std::size_t i = 0; i < unit.pieces.size(); ++i) DropKey(unit, static_cast<std::uint32_t>(i));
}

void Core::DropKey(Unit& unit, std::uint32_t piece) {
  if (unit.pieces[piece].keyed) keys_.Erase(unit, piece);
  unit.pieces[piece].keyed = false;
}

// The device memory goes: at once, or after the copy that may still touch it.
void Core::LetMemoryGo(Unit& unit, Trash& trash) {
  CountBrought(unit, false);
  const bool ordered = !unit.native && FreeInOrder(unit);
  EventRef until = unit.native ? unit.out : unit.ready;
  if (ordered || until.SeenDone()) until.reset();
  const bool at_tier = unit.ticket != 0 && !unit.ticket_on_block;
  if (!until && !at_tier) {
    for (Piece& piece : unit.pieces) trash.Add(std::move(piece.memory));
  } else {
    Grave grave;
    grave.until = until;
    grave.stream = unit.copied_on;
    if (at_tier) {
      grave.ticket = std::exchange(unit.ticket, 0);
      grave.ticket_writes = unit.ticket_writes;
    }
    for (Piece& piece : unit.pieces) {
      if (piece.memory) grave.memory.push_back(std::move(piece.memory));
    }
    graves_.push_back(std::move(grave));
  }
  for (Piece& piece : unit.pieces) piece.memory.reset();
}

// The host block goes back to the pool, guarded by the last copy that touches it.
void Core::LetBlockGo(Unit& unit, Trash& trash) {
  unit.host_valid = false;
  if (!unit.block) return;
  if (unit.state == State::kResident) --resident_blocks_;
  EventRef guard = std::move(unit.last_touch);
  if (unit.ticket != 0 && unit.ticket_on_block) {
    Grave grave;
    grave.until = std::move(guard);
    grave.stream = unit.copied_on;
    grave.ticket = std::exchange(unit.ticket, 0);
    grave.ticket_writes = unit.ticket_writes;
    grave.block = std::move(unit.block);
    graves_.push_back(std::move(grave));
  } else {
    trash.Add(std::move(unit.block), std::move(guard));
  }
  unit.block = HostBlock();
}

// Requires: the copy is done, or the reuse of the memory is ordered behind it.
void Core::GiveUp(Unit& unit, Change change, Trash& trash, double now_s) {
  Move(unit, change, now_s);
  CountBrought(unit, false);
  for (std::size_t i = 0; i < unit.pieces.size(); ++i) {
    Piece& piece = unit.pieces[i];
    trash.Add(std::move(piece.memory));
    piece.memory.reset();
    // Without a watch the storage's identity may now be given to another one.
    if (!piece.watch) DropKey(unit, static_cast<std::uint32_t>(i));
  }
  unit.ready.reset();
  unit.waited = false;
}

// The last slot is gone: the unit leaves the table.
void Core::Bury(Unit& unit, Trash& trash) {
  DropKeys(unit);
  if (unit.name != kNoName) schedule_.Unbind(unit.name, &unit);
  alive_.Remove(unit);
  if (leaving_.Has(unit)) leaving_bytes_ -= unit.bytes;
  leaving_.Remove(unit);
  (AtTier(unit.state) ? waiting_ : hosted_).Remove(unit);
  if (!OnDevice(unit.state)) swapped_bytes_ -= unit.bytes;
  if (unit.group) unit.group->units.Remove(unit);
  if (unit.open_in != nullptr) unit.open_in->batch = nullptr;
  if (last_used_ == &unit) last_used_ = nullptr;
  LetMemoryGo(unit, trash);
  LetBlockGo(unit, trash);
  if (unit.ticket != 0) {
    Grave grave;
    grave.ticket = unit.ticket;
    grave.ticket_writes = unit.ticket_writes;
    graves_.push_back(std::move(grave));
  }
  if (unit.extent.bytes != 0) trash.extents.push_back(unit.extent);
  for (Piece& piece : unit.pieces) trash.Add(std::move(piece.watch));
  Pieces pieces = std::move(unit.pieces);  // keeps its memory for the next unit
  pieces.Clear();
  unit = Unit();
  unit.pieces = std::move(pieces);
  units_.Give(unit);
  --live_units_;
}

// Requires: called in a catch block.
void Core::Failed(std::int64_t Stats::*counter) noexcept {
  std::string what = "an error that is no exception of the standard library";
  try {
    throw;
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
  }
  {
    Locked locked(*this);
    ++(stats_.*counter);
    stats_.last_error = what;
  }
  Trouble(what);
}

void Core::Trouble(const std::string& what) noexcept {
  if (!options_.on_trouble) return;
  try {
    options_.on_trouble(what + "\n" + Dump(Recorded()));
  } catch (...) {
  }
}

// After the lock: destructors of device memory, the pool's and the tier's calls.
void Core::Sweep(Trash& trash) noexcept {
  if (trash.first_block.block) {
    pool_->Give(std::move(trash.first_block.block), std::move(trash.first_block.guard));
  }
  for (Trash::Block& one : trash.blocks) pool_->Give(std::move(one.block), std::move(one.guard));
  for (const Tier::Extent& extent : trash.extents) options_.tier->Release(extent);
}

void Core::Step() {
  Locked locked(*this);
  explicit_steps_ = true;
  schedule_.Step();
}

void Core::GiveOrder(const std::vector<UseName>& order) {
  Locked locked(*this);
  schedule_.Give(order);
}

void Core::Forget(std::uint64_t identity) {
  Locked locked(*this);
  std::vector<std::pair<Unit*, std::uint32_t>> found;
  keys_.ForEach(identity,
                [&](Unit& unit, std::uint32_t piece) { found.emplace_back(&unit, piece); });
  for (const auto& [unit, piece] : found) DropKey(*unit, piece);
}

void Core::AddHandle() {
  const Guard guard(lock_);
  ++handles_;
}

void Core::DropHandle() noexcept {
  bool last = false;
  {
    const Guard guard(lock_);
    last = --handles_ == 0 && live_slots_ == 0;
  }
  if (last) delete this;
}

}  // namespace restow::swap
