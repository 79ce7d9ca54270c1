#include "restow/schema/calibration.h"

#include <gtest/gtest.h>

#include <string>

#include "restow/io/presets.h"
#include "restow/io/read.h"

namespace restow {
namespace {

Calibration Read(const std::string& text) {
  return ReadCalibration(ParseDocument(text, Language::kYaml, "c.yaml"));
}

std::string Fault(const std::string& text) {
  try {
    Read(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.what();
  }
  return "";
}

const char* const kSmall =
    "id: mine\n"
    "rows: 12\n"
    "nearest: {h200: h100}\n"
    "software:\n"
    "  - {release: \"NeMo 25\", profile: megatron}\n"
    "constants:\n"
    "  - {name: straggle, value: 3e-3, unit: share, spread: 0.1, rows: 4, source: \"a log\"}\n";

TEST(Calibration, IsReadWithEveryConstantsSource) {
  const Calibration c = Read(kSmall);
  EXPECT_EQ(c.id, "mine");
  EXPECT_EQ(c.rows, 12);
  EXPECT_EQ(c.nearest.at("h200"), "h100");
  EXPECT_EQ(c.software.at("nemo 25"), "megatron");
  const Constant& straggle = c.constants.at("straggle");
  EXPECT_DOUBLE_EQ(straggle.value, 0.003);
  EXPECT_DOUBLE_EQ(straggle.spread, 0.1);
  EXPECT_EQ(straggle.rows, 4);
  EXPECT_EQ(straggle.source, "a log");
}

TEST(Calibration, FaultsNameFilePlaceAndRemedy) {
  EXPECT_NE(Fault("id: a\nrows: 1\nconstants:\n  - {name: a, value: -1, source: s}\n")
                .find("c.yaml:4:22: constants[0].value is -1"),
            std::string::npos);
  EXPECT_NE(Fault("id: a\nrows: 1\nconstants:\n  - {name: a, valu: 1, source: s}\n")
                .find("did you mean 'value'?"),
            std::string::npos);
  EXPECT_NE(Fault("id: a\nrows: 1\nconstants:\n  - {name: a, value: 1}\n").find("'source'"),
            std::string::npos);
  EXPECT_NE(Fault("id: a\nrows: 1\nconstants:\n  - {name: a, value: .nan, source: s}\n"), "");
  EXPECT_NE(Fault("id: a\nrows: 1\nconstants:\n  - {name: a, value: 1, source: s}\n"
                  "  - {name: a, value: 2, source: s}\n")
                .find("stated twice"),
            std::string::npos);
  EXPECT_NE(Fault("rows: 1\nconstants: []\n").find("'id' is missing"), std::string::npos);
  EXPECT_NE(Fault("[1]\n"), "");
}

TEST(Calibration, OfAUserLacksNoConstantThatIsNeeded) {
  try {
    ReadWholeCalibration(ParseDocument(kSmall, Language::kYaml, "c.yaml"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_NE(std::string(error.what()).find("c.yaml"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("is missing, which this version needs"),
              std::string::npos);
  }
}

TEST(DefaultCalibration, ShipsWithASourceForEveryConstant) {
  const Calibration& c = DefaultCalibration();
  EXPECT_EQ(c.id, "restow-2026-11");
  EXPECT_EQ(c.rows, 520);
  EXPECT_GE(c.constants.size(), 150u);
  for (const auto& [name, constant] : c.constants) {
    EXPECT_FALSE(constant.source.empty()) << name;
    EXPECT_LE(constant.rows, c.rows) << name;
    // A fitted constant says on which runs, where it started and how far it could move.
    if (constant.spread == 0) continue;
    EXPECT_GE(constant.rows, 2) << name;
    EXPECT_GT(constant.allowed, 0) << name;
    EXPECT_GT(constant.start, 0) << name;
    EXPECT_FALSE(constant.fitted_on.empty()) << name;
  }
}

}  // namespace
}  // namespace restow
