// What went wrong with a transfer, and how it is told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "restow/base/error.h"

namespace restow::swap::file_tier {

struct Failure {
  enum class Kind {
    kNone,
    kCap,      // `size` bytes would not fit under the cap
    kReserve,  // the disk gave no space
    kWrite,
    kRead,
    kMemory,    // no aligned buffer
    kChecksum,  // the file returned other bytes than were written
  };
  Kind kind = Kind::kNone;
  int error = 0;             // errno
  std::uint64_t offset = 0;  // in the file
  std::size_t size = 0;      // bytes of the transfer
};

// Where the failure was: for the message.
struct FailurePlace {
  std::string path, dir;
  bool write = false;  // of a blob; its caller still has the bytes
  std::uint64_t cap = 0, used = 0;
};

Error ToError(const Failure& failure, const FailurePlace& place);

}  // namespace restow::swap::file_tier
