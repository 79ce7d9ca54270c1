// A failed check is a bug in Restow, never the user's fault.
#pragma once

namespace restow::internal {
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);
}  // namespace restow::internal

#define RESTOW_CHECK(condition)                        \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::restow::internal::CheckFailed(#condition, __FILE__, __LINE__))
