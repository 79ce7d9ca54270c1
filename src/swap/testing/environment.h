// Seeds and lengths of sweeps, from the environment.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace restow::swap {

inline std::uint64_t FromEnvironment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace restow::swap
