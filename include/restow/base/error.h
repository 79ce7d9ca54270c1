// Errors of every Restow library: what went wrong, where, and what to do about it.
//
// Libraries throw `Error`; the command turns the code into an exit code. "Nothing fits" is a
// result (see schema/report.h), never an error.
#pragma once

#include <stdexcept>
#include <string>

namespace restow {

// A place in something the user wrote. `line` and `column` count from 1; 0 means "the whole of it".
// `file` is a path as the user gave it, or the name of another origin: "<stdin>", "argument tp=8".
struct SourcePosition {
  std::string file;
  int line = 0;
  int column = 0;
};

// "job.yaml:12:7", "job.yaml", or "" for an unknown place.
std::string ToString(const SourcePosition& where);

enum class ErrorCode {
  kInternal,     // our bug; exit 1
  kUsage,        // the command line makes no sense; exit 2
  kBadInput,     // a file or value is wrong; exit 3
  kUnsupported,  // named in the interfaces, but not available in this version; exit 3
};

// `message` names the value and what is allowed instead; the position goes in front of it.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, SourcePosition where = {});

  ErrorCode code() const { return code_; }
  const SourcePosition& where() const { return where_; }
  // The message without its position.
  const std::string& message() const { return message_; }

 private:
  ErrorCode code_;
  std::string message_;
  SourcePosition where_;
};

[[noreturn]] void ThrowBadInput(const std::string& message, SourcePosition where = {});
[[noreturn]] void ThrowUnsupported(const std::string& message, SourcePosition where = {});
[[noreturn]] void ThrowUsage(const std::string& message);

}  // namespace restow
