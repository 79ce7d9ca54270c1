#include "restow/swap/host_bytes.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace restow::swap {
namespace {

// What vectorised kernels want.
constexpr std::size_t kSmallAlignment = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kPagedFrom = std::size_t{64} << 10;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t AlignmentOf(std::size_t bytes) {
  if (bytes >= kHugePage) return kHugePage;
  return bytes >= kPagedFrom ? kPage : kSmallAlignment;
}

}  // namespace

void* NewHostBytes(std::size_t bytes) {
  void* data = nullptr;
  const std::size_t alignment = AlignmentOf(bytes);
  if (::posix_memalign(&data, alignment, bytes) != 0) throw std::bad_alloc();
  // Whole huge pages only: what follows the last one is not ours. A kernel without them says no.
  if (alignment == kHugePage) ::madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return data;
}

void DeleteHostBytes(void* data) noexcept { std::free(data); }

}  // namespace restow::swap
