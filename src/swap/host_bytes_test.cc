#include "restow/swap/host_bytes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <new>

namespace restow::swap {
namespace {

TEST(HostBytes, AreAlignedAsTheirSizeAsks) {
  const struct {
    std::size_t bytes, alignment;
  } rows[] = {{1, 64},         {65535, 64},        {65536, 4096},
              {2097151, 4096}, {2097152, 2097152}, {5000001, 2097152}};
  for (const auto& row : rows) {
    void* const data = NewHostBytes(row.bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % row.alignment, 0u) << row.bytes;
    std::memset(data, 7, row.bytes);
    EXPECT_EQ(static_cast<unsigned char*>(data)[row.bytes - 1], 7);
    DeleteHostBytes(data);
  }
}

// A sanitizer's allocator ends the process where the C library's says no.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(HostBytes, ThatDoNotExistAreAnError) {
  EXPECT_THROW(NewHostBytes(std::numeric_limits<std::size_t>::max() / 2), std::bad_alloc);
}
#endif

}  // namespace
}  // namespace restow::swap
