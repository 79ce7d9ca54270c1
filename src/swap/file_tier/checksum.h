// The checksum of one transfer: XXH3, 64 bits, which a core computes faster than disks deliver.
#pragma once

#include <cstddef>
#include <cstdint>

namespace restow::swap::file_tier {

std::uint64_t Checksum(const void* data, std::size_t size);

}  // namespace restow::swap::file_tier
