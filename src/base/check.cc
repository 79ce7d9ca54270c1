#include "restow/base/check.h"

#include <string>

#include "restow/base/error.h"

namespace restow::internal {

void CheckFailed(const char* condition, const char* file, int line) {
  throw Error(ErrorCode::kInternal, std::string("internal error, please report it: ") + condition,
              SourcePosition{file, line, 1});
}

}  // namespace restow::internal
