// Host memory that a file is read into with no copy in between.
#pragma once

#include <cstddef>

namespace restow::swap {

// Uninitialised; aligned to 64 bytes, from 64 KiB on to a page, as direct I/O wants it, from 2 MiB
// on to a huge page, which the kernel is asked for: it is touched in few faults. Threads: any.
// Errors: std::bad_alloc.
void* NewHostBytes(std::size_t bytes);
void DeleteHostBytes(void* data) noexcept;

}  // namespace restow::swap
