// Reaching the user's directory without being led elsewhere.
#pragma once

#include <string>

#include "swap/file_tier/descriptor.h"

namespace restow::swap::file_tier {

// Opens the directory at `path`. Each symbolic link on the way must belong to root or to this user:
// in a directory that all may write to, another user's link could point anywhere.
// Errors: kBadInput, with `path` as its position.
Descriptor OpenDirectory(const std::string& path);

}  // namespace restow::swap::file_tier
