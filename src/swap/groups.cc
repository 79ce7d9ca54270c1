// Groups: units launched and awaited together, by hand.
#include "restow/base/error.h"
#include "restow/base/text.h"
#include "swap/core.h"

namespace restow::swap {

std::shared_ptr<Group> Core::GroupOf(std::string_view name, const char* call) {
  const auto found = groups_.find(name);
  if (found != groups_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, group] : groups_) names.push_back(known);
  ThrowUsage(std::string(call) + ": no group is called '" + std::string(name) + "'" +
             DidYouMean(name, names) + "; a group exists once a region was opened in it");
}

// Claims each unit of the group that is wanted, in order of pack, and acts on it without the lock.
template <class Wanted, class Act>
void Core::ForUnits(Group& group, Wanted wanted, Act act) {
  std::uint64_t last = 0;
  for (;;) {
    Unit* unit = nullptr;
    {
      Locked locked(*this);
      for (;;) {
        unit = group.units.front();
        while (unit != nullptr && (unit->id <= last || !wanted(*unit))) {
          unit = UnitList<&Unit::in_group>::After(*unit);
        }
        if (unit == nullptr || !unit->busy) break;
        // Not held by a slot of ours, so it may be gone after the wait: look again.
        WaitForClaims(locked.guard);
      }
      if (unit == nullptr) return;
      Hold(*unit);
      last = unit->id;
      if (unit->open_in != nullptr) unit->open_in->batch = nullptr;
      unit->open_in = nullptr;
    }
    try {
      act(*unit);
    } catch (...) {
      Locked locked(*this);
      Unclaim(*unit, locked.trash);
      throw;
    }
    Locked locked(*this);
    Unclaim(*unit, locked.trash);
  }
}

void Core::LaunchOffload(std::string_view name) {
  const Stream stream = device_->CurrentStream();
  std::shared_ptr<Group> group;
  {
    Locked locked(*this);
    group = GroupOf(name, "launch_offload");
    group->offload_launched = true;
  }
  const auto wanted = [](const Unit& unit) {
    return unit.state == State::kResident && !unit.kept && unit.native && !unit.block &&
           unit.ticket == 0 && unit.bytes > 0;
  };
  ForUnits(*group, wanted, [&](Unit& unit) {
    Reason reason = Reason::kKeptDeviceError;
    try {
      reason = unit.to_file && Direct() && unit.pieces.size() == 1 ? StartDirectWrite(unit, stream)
                                                                   : IssueOut(unit, stream);
    } catch (...) {
      Failed(&Stats::device_errors);
    }
    Locked locked(*this);
    if (reason != Reason::kSwapped) unit.kept = true;
    if (reason == Reason::kKeptHostFull) ++stats_.kept_host_full;
  });
}

void Core::WaitOffload(std::string_view name) {
  const Stream stream = device_->CurrentStream();
  std::shared_ptr<Group> group;
  {
    Locked locked(*this);
    group = GroupOf(name, "wait_offload");
    if (!group->offload_launched) {
      ThrowUsage("wait_offload('" + group->name + "') without launch_offload before it");
    }
    group->offload_launched = false;
  }
  const auto wanted = [](const Unit& unit) {
    return unit.state == State::kOffloading || unit.state == State::kWriting;
  };
  ForUnits(*group, wanted, [&](Unit& unit) { LetGo(unit, &stream); });
}

void Core::LaunchLoad(std::string_view name) {
  const Stream stream = device_->CurrentStream();
  std::shared_ptr<Group> group;
  {
    Locked locked(*this);
    group = GroupOf(name, "launch_load");
    group->load_launched = true;
  }
  const auto wanted = [](const Unit& unit) {
    return unit.state == State::kOnHost || unit.state == State::kOnFile ||
           unit.state == State::kOffloading || unit.state == State::kWriting ||
           unit.state == State::kSpilling;
  };
  ForUnits(*group, wanted, [&](Unit& unit) {
    try {
      MoveCloser(unit, stream);
      if (unit.state == State::kOnHost) MoveCloser(unit, stream);
    } catch (...) {
      Failed(&Stats::device_errors);  // it is brought back at its wait or its use
    }
  });
}

void Core::WaitLoad(std::string_view name) {
  const Stream stream = device_->CurrentStream();
  std::shared_ptr<Group> group;
  {
    Locked locked(*this);
    group = GroupOf(name, "wait_load");
    if (!group->load_launched) {
      ThrowUsage("wait_load('" + group->name + "') without launch_load before it");
    }
    group->load_launched = false;
  }
  const auto wanted = [](const Unit& unit) { return unit.state != State::kResident; };
  ForUnits(*group, wanted, [&](Unit& unit) { BringBack(unit, stream); });
}

void Core::DropGroup(std::string_view name) {
  Locked locked(*this);
  const auto found = groups_.find(name);
  if (found != groups_.end()) groups_.erase(found);
}

std::vector<std::string> Core::GroupNames() {
  Locked locked(*this);
  std::vector<std::string> names;
  for (const auto& [name, group] : groups_) names.push_back(name);
  return names;
}

}  // namespace restow::swap
