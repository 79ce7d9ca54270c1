#include "restow/base/quantity.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace restow {
namespace {

template <class A, class B>
concept CanAdd = requires(A a, B b) {
  a + b;
};

static_assert(!CanAdd<Bytes, Seconds>, "bytes and seconds must not mix");
static_assert(CanAdd<Bytes, Bytes>);

TEST(Quantity, BytesOverBandwidthIsSeconds) {
  EXPECT_DOUBLE_EQ((Bytes(900) / BytesPerSecond(300)).value(), 3.0);
}

TEST(Quantity, ComputedBytesRoundUpToTheLargerShard) {
  EXPECT_EQ(WholeBytes(10.0).value(), 10);
  EXPECT_EQ(WholeBytes(10.25).value(), 11);
  EXPECT_EQ(WholeBytes(10.0000000001).value(), 10) << "noise of a division is not a byte";
}

}  // namespace
}  // namespace restow
