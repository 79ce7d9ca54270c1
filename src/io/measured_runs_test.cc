#include "restow/io/measured_runs.h"

#include <gtest/gtest.h>

#include "restow/io/presets.h"
#include "restow/io/read.h"
#include "restow/io/write.h"

namespace restow {
namespace {

TEST(MeasuredRuns, ReadQuotesCommasAndSwitches) {
  const std::vector<MeasuredRun> runs = ParseMeasuredRuns(
      "\xEF\xBB\xBFid,note,switches\r\nab-c-7,\"a, \"\"b\"\"\nc\",te=2.11;Dropout = 1;\n\nd,,\n",
      "t");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].Source(), "ab-c");
  EXPECT_EQ(runs[0].at("note"), "a, \"b\"\nc");
  EXPECT_EQ(runs[0].Switch("te"), "2.11");
  EXPECT_EQ(runs[0].Switch("dropout"), "1");
  EXPECT_EQ(runs[0].Switch("absent"), "");
  EXPECT_EQ(runs[1].where.line, 5);
  EXPECT_EQ(runs[1].Source(), "d");
  EXPECT_EQ(runs[1].at("no such column"), "");
}

TEST(CalibrationText, ReadsBackAsItWas) {
  const Calibration& shipped = DefaultCalibration();
  const Calibration again =
      ReadCalibration(ParseDocument(CalibrationText(shipped), Language::kYaml, "again"));
  EXPECT_EQ(again.id, shipped.id);
  EXPECT_EQ(again.rows, shipped.rows);
  EXPECT_EQ(again.nearest, shipped.nearest);
  EXPECT_EQ(again.software, shipped.software);
  ASSERT_EQ(again.constants.size(), shipped.constants.size());
  for (const auto& [name, constant] : shipped.constants) {
    const Constant& other = again.constants.at(name);
    EXPECT_NEAR(other.value, constant.value, 1e-5 * constant.value) << name;
    EXPECT_EQ(other.rows, constant.rows) << name;
    EXPECT_EQ(other.source, constant.source) << name;
    EXPECT_EQ(other.fitted_on, constant.fitted_on) << name;
  }
  EXPECT_EQ(again.left_out.size(), shipped.left_out.size());
}

TEST(ShippedCalibration, FitsNoConstantToASingleRun) {
  for (const auto& [name, constant] : DefaultCalibration().constants) {
    const bool fitted = constant.allowed > 0 && constant.value != constant.start;
    EXPECT_TRUE(!fitted || constant.rows >= 2) << name;
    EXPECT_FALSE(constant.source.empty()) << name;
  }
}

}  // namespace
}  // namespace restow
