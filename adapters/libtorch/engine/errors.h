// Errors that have a class of their own in every language.
#pragma once

#include <string>

#include "restow/base/error.h"

namespace restow::libtorch {

// A saved tensor was changed in place before its backward.
struct ModifiedInPlace : Error {
  explicit ModifiedInPlace(const std::string& message) : Error(ErrorCode::kBadInput, message) {}
};

// A recomputed forward did not save what the first one saved.
struct NotDeterministic : Error {
  explicit NotDeterministic(const std::string& message) : Error(ErrorCode::kBadInput, message) {}
};

}  // namespace restow::libtorch
