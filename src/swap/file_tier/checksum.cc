#include "swap/file_tier/checksum.h"

#include <xxhash.h>

namespace restow::swap::file_tier {

std::uint64_t Checksum(const void* data, std::size_t size) { return XXH3_64bits(data, size); }

}  // namespace restow::swap::file_tier
