#include "swap/file_tier/failure.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "restow/base/units.h"

namespace restow::swap::file_tier {
namespace {

std::string Size(std::uint64_t bytes) {
  return FormatBytes(Bytes(static_cast<std::int64_t>(bytes)));
}

std::string Spot(const Failure& failure) {
  return fmt::format("{} at offset {}", Size(failure.size),
                     FormatCount(static_cast<std::int64_t>(failure.offset)));
}

std::string Cause(const Failure& failure, const FailurePlace& place) {
  const char* error = std::strerror(failure.error);
  switch (failure.kind) {
    case Failure::Kind::kCap:
      return fmt::format("writing {} would pass the cap: {} of {} are in use", Size(failure.size),
                         Size(place.used), Size(place.cap));
    case Failure::Kind::kReserve:
      return fmt::format("no space for {}: {}", Spot(failure), error);
    case Failure::Kind::kWrite:
      return fmt::format("writing {} failed: {}", Spot(failure), error);
    case Failure::Kind::kRead:
      return fmt::format("reading {} failed twice: {}", Spot(failure), error);
    case Failure::Kind::kMemory:
      return fmt::format("no memory for a buffer of {}", Size(failure.size));
    case Failure::Kind::kChecksum:
      return fmt::format(
          "{} were read twice with a wrong checksum: the bytes are not those "
          "that were written",
          Spot(failure));
    case Failure::Kind::kNone:
      break;
  }
  return "nothing failed";
}

std::string Remedy(const Failure& failure, const FailurePlace& place) {
  if (failure.kind == Failure::Kind::kCap) return "raise the cap of the file tier";
  if (failure.kind == Failure::Kind::kMemory) return "leave the host more free memory";
  if (failure.kind == Failure::Kind::kChecksum) {
    return "check that nothing changed the buffer while it was written, then the device";
  }
  switch (failure.error) {
    case ENOSPC:
    case EDQUOT:
      return fmt::format("free space in '{}', lower the cap, or choose another directory",
                         place.dir);
    case EFBIG:
      return "raise this process's limit on file sizes (ulimit -f)";
    default:
      return "look at the kernel's log (dmesg) and the device, or choose another directory";
  }
}

const char* Consequence(const FailurePlace& place) {
  return place.write ? "nothing is lost, the bytes are still in memory"
                     : "the step that needs these bytes cannot go on; later steps can";
}

}  // namespace

Error ToError(const Failure& failure, const FailurePlace& place) {
  return {ErrorCode::kBadInput,
          fmt::format("{}; {}. Remedy: {}", Cause(failure, place), Consequence(place),
                      Remedy(failure, place)),
          {place.path}};
}

}  // namespace restow::swap::file_tier
