// Where a unit's bytes are, and every way they may move: a pure table.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace restow::swap {

enum class State : std::uint8_t {
  kResident,     // the engine holds the device memory
  kOffloading,   // held, while its copy to host memory is under way
  kOnHost,       // given up on the device; host memory holds the bytes
  kPrefetching,  // new device memory is being filled from host memory, which still holds the bytes
  kSpilling,     // host memory holds the bytes, while they are written to the tier below
  kOnFile,       // only the tier below holds the bytes
  kFetching,     // being read from the tier below into host memory
  kWriting,      // held on the device, while it is written to the tier below without a host copy
  kReading,      // being read from the tier below into new device memory
  kLost,         // a copy failed after the device memory was given up; unpack raises
};
inline constexpr int kStates = 10;

enum class Change : std::uint8_t {
  kOffload,      // the copy to host memory was issued
  kGiveUp,       // the device memory was given up: the copy is done, or its reuse ordered behind it
  kCancel,       // used before the move finished: the bytes are still where they were
  kPrefetch,     // the copy back was issued
  kUse,          // a stream was made to wait for the copy back
  kTakeBack,     // prefetched, but the device memory was needed: given up unused
  kAdopt,        // the storage was saved again by someone who wants it kept: his memory is taken
  kSpill,        // a write to the tier below was started
  kSpilled,      // that write finished
  kSpillFailed,  // that write failed; nothing is lost
  kFetch,        // a read from the tier below was started
  kFetched,      // that read finished
  kFetchFailed,  // that read failed; the tier still holds what it holds
  kShed,         // given up where it is, because the tier below holds the same bytes
  kLose,         // the only copy turned out to be bad
};
inline constexpr int kChanges = 15;

struct Rule {
  State from;
  Change change;
  State to;
  const char* sentence;  // when this happens
};

// All rows; what is not here is illegal.
const std::vector<Rule>& Rules();

std::optional<State> Next(State from, Change change);
// Errors: restow::Error (internal) naming both, for a change that is not in the table.
State Apply(State from, Change change);

const char* Name(State state);
const char* Name(Change change);
const char* Sentence(State state);

}  // namespace restow::swap
