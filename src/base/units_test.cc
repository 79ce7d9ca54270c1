#include "restow/base/units.h"

#include <gtest/gtest.h>

#include "restow/base/error.h"
#include "restow/base/text.h"

namespace restow {
namespace {

std::string MessageOf(void (*action)()) {
  try {
    action();
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(Units, SizesTakeBinaryAndDecimalUnitsInAnyCase) {
  EXPECT_EQ(ParseBytes("2GiB").value(), 2147483648);
  EXPECT_EQ(ParseBytes(" 80 GB ").value(), 80000000000);
  EXPECT_EQ(ParseBytes("1.5 mib").value(), 1572864);
  EXPECT_EQ(ParseBytes("0B").value(), 0);
}

TEST(Units, ANumberWithoutAUnitIsRefusedNeverReadAsBytes) {
  EXPECT_EQ(MessageOf([] { ParseBytes("58"); }), "'58' has no unit; write a size like '2GiB'");
  EXPECT_THROW(ParseBytes("58G"), Error);
  EXPECT_THROW(ParseBytes("58Gibibytes"), Error);
  EXPECT_THROW(ParseSeconds("3"), Error);
  EXPECT_THROW(ParseBytes("nan GB"), Error);
  EXPECT_THROW(ParseBytes("-1GB"), Error);
  EXPECT_THROW(ParseBytes("99999999 PB"), Error);
}

TEST(Units, RatesAndTimes) {
  EXPECT_DOUBLE_EQ(ParseBytesPerSecond("3.35 TB/s").value(), 3.35e12);
  EXPECT_DOUBLE_EQ(ParseFlopsPerSecond("989 TFLOPS").value(), 9.89e14);
  EXPECT_DOUBLE_EQ(ParseFlopsPerSecond("989 TFLOP/s").value(), 9.89e14);
  EXPECT_DOUBLE_EQ(ParseSeconds("3 us").value(), 3e-6);
  EXPECT_THROW(ParseBytesPerSecond("450 GB"), Error);
}

TEST(Units, FormattingIsShort) {
  EXPECT_EQ(FormatBytes(Bytes(80 * kGiB)), "80.0 GiB");
  EXPECT_EQ(FormatBytes(Bytes(1536 * kMiB)), "1.50 GiB");
  EXPECT_EQ(FormatBytes(Bytes(12)), "12 B");
  EXPECT_EQ(FormatSeconds(Seconds(0.00123)), "1.23 ms");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatParameters(8030261248), "8.03 B");
}

TEST(Text, TyposFindTheirWord) {
  EXPECT_EQ(NearestWord("selectiv", {"off", "selective", "full"}), "selective");
  EXPECT_EQ(DidYouMean("tp", {"tp", "pp"}), "") << "a word that is right is no typo";
  EXPECT_EQ(NearestWord("banana", {"off", "selective", "full"}), "");
}

TEST(Text, GlobsCrossSegmentsOnlyWithTwoStars) {
  EXPECT_TRUE(GlobMatches("model.layers.*", "model.layers.3"));
  EXPECT_FALSE(GlobMatches("model.layers.*", "model.layers.3.mlp"));
  EXPECT_TRUE(GlobMatches("model.**", "model.layers.3.mlp"));
  EXPECT_TRUE(GlobMatches("**.mlp", "model.layers.3.mlp"));
}

}  // namespace
}  // namespace restow
