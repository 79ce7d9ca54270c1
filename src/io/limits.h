// What hostile or mistaken files may cost at most.
#pragma once

#include <cstddef>

namespace restow {

inline constexpr std::size_t kLargestFile = std::size_t{8} << 20;  // bytes
inline constexpr std::size_t kDeepestNesting = 64;
inline constexpr std::size_t kMostNodes = 200000;  // aliases counted as what they copy

}  // namespace restow
