#include "restow/base/error.h"

#include <utility>

namespace restow {
namespace {

std::string WithPosition(const std::string& message, const SourcePosition& where) {
  const std::string place = ToString(where);
  return place.empty() ? message : place + ": " + message;
}

}  // namespace

std::string ToString(const SourcePosition& where) {
  if (where.line == 0) return where.file;
  return where.file + ":" + std::to_string(where.line) + ":" + std::to_string(where.column);
}

Error::Error(ErrorCode code, const std::string& message, SourcePosition where)
    : std::runtime_error(WithPosition(message, where)),
      code_(code),
      message_(message),
      where_(std::move(where)) {}

void ThrowBadInput(const std::string& message, SourcePosition where) {
  throw Error(ErrorCode::kBadInput, message, std::move(where));
}

void ThrowUnsupported(const std::string& message, SourcePosition where) {
  throw Error(ErrorCode::kUnsupported, message, std::move(where));
}

void ThrowUsage(const std::string& message) { throw Error(ErrorCode::kUsage, message); }

}  // namespace restow
