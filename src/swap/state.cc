#include "restow/swap/state.h"

#include <fmt/format.h>

#include <array>

#include "restow/base/error.h"

namespace restow::swap {
namespace {

constexpr std::array<const char*, kStates> kStateNames = {
    "Resident", "Offloading", "OnHost",  "Prefetching", "Spilling",
    "OnFile",   "Fetching",   "Writing", "Reading",     "Lost"};
constexpr std::array<const char*, kStates> kStateSentences = {
    "the engine holds the device memory",
    "held, while its copy to host memory is under way",
    "given up on the device; host memory holds the bytes",
    "new device memory is being filled from host memory, which still holds the bytes",
    "host memory holds the bytes, while they are written to the tier below",
    "only the tier below holds the bytes",
    "being read from the tier below into host memory",
    "held on the device, while it is written to the tier below without a host copy",
    "being read from the tier below into new device memory",
    "a copy failed after the device memory was given up; unpack raises"};
constexpr std::array<const char*, kChanges> kChangeNames = {
    "offload", "give up",      "cancel", "prefetch", "use",          "take back", "adopt", "spill",
    "spilled", "spill failed", "fetch",  "fetched",  "fetch failed", "shed",      "lose"};

using Table = std::array<std::array<std::int8_t, kChanges>, kStates>;

Table MakeTable() {
  Table table;
  for (auto& row : table) row.fill(-1);
  for (const Rule& rule : Rules()) {
    table[static_cast<std::size_t>(rule.from)][static_cast<std::size_t>(rule.change)] =
        static_cast<std::int8_t>(rule.to);
  }
  return table;
}

}  // namespace

const std::vector<Rule>& Rules() {
  using S = State;
  using C = Change;
  static const std::vector<Rule> rules = {
      {S::kResident, C::kOffload, S::kOffloading, "a saved storage's copy to host is issued"},
      {S::kOffloading, C::kGiveUp, S::kOnHost, "its copy is done, or memory is freed behind it"},
      {S::kOffloading, C::kCancel, S::kResident,
       "unpacked, or wanted kept, before it was given up"},
      {S::kResident, C::kGiveUp, S::kOnHost, "used, not wanted now, and its host copy still holds"},
      {S::kOnHost, C::kPrefetch, S::kPrefetching, "its use is near, or has come"},
      {S::kPrefetching, C::kUse, S::kResident, "a stream waits for the copy back"},
      {S::kPrefetching, C::kTakeBack, S::kOnHost, "an allocation for another unit failed"},
      {S::kOnHost, C::kAdopt, S::kResident, "saved again while alive elsewhere, and to be kept"},
      {S::kOnHost, C::kSpill, S::kSpilling, "host memory is short, or the region says file"},
      {S::kSpilling, C::kSpilled, S::kOnFile, "the write is done; the host block is free"},
      {S::kSpilling, C::kCancel, S::kOnHost, "wanted before the write was done"},
      {S::kSpilling, C::kSpillFailed, S::kOnHost, "the tier is full or broken; nothing is lost"},
      {S::kOnHost, C::kShed, S::kOnFile, "host memory is short and the tier holds it already"},
      {S::kOnFile, C::kFetch, S::kFetching, "its use is near; it goes through host memory"},
      {S::kFetching, C::kFetched, S::kOnHost, "the read is done"},
      {S::kFetching, C::kFetchFailed, S::kOnFile, "the read failed; the next unpack tries again"},
      {S::kOnFile, C::kAdopt, S::kResident, "saved again while alive elsewhere, and to be kept"},
      {S::kResident, C::kSpill, S::kWriting,
       "device memory is host memory and the region says file"},
      {S::kWriting, C::kSpilled, S::kOnFile, "the write is done; the memory is given up"},
      {S::kWriting, C::kCancel, S::kResident, "unpacked before the write was done"},
      {S::kWriting, C::kSpillFailed, S::kResident,
       "the tier is full or broken; the tensor is kept"},
      {S::kOnFile, C::kPrefetch, S::kReading, "its use is near; it is read into device memory"},
      {S::kReading, C::kFetched, S::kResident, "the read is done"},
      {S::kReading, C::kFetchFailed, S::kOnFile, "the read failed; the next unpack tries again"},
      {S::kResident, C::kShed, S::kOnFile, "used, not wanted now, and the tier still holds it"},
      {S::kOnHost, C::kLose, S::kLost, "its copy failed after the device memory was given up"},
  };
  return rules;
}

std::optional<State> Next(State from, Change change) {
  static const Table table = MakeTable();
  const std::int8_t to = table[static_cast<std::size_t>(from)][static_cast<std::size_t>(change)];
  if (to < 0) return std::nullopt;
  return static_cast<State>(to);
}

State Apply(State from, Change change) {
  const std::optional<State> to = Next(from, change);
  if (to) return *to;
  throw Error(ErrorCode::kInternal,
              fmt::format("internal error, please report it: a unit that is {} cannot '{}'",
                          Name(from), Name(change)));
}

const char* Name(State state) { return kStateNames[static_cast<std::size_t>(state)]; }
const char* Name(Change change) { return kChangeNames[static_cast<std::size_t>(change)]; }
const char* Sentence(State state) { return kStateSentences[static_cast<std::size_t>(state)]; }

}  // namespace restow::swap
