// The fit against linear algebra by hand and against constants that made the runs.
#include "validate/fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "restow/io/presets.h"
#include "restow/validate/calibrate.h"
#include "validate/family.h"
#include "validate/least_squares.h"

namespace restow::validate {
namespace {

TEST(LeastSquares, SolvesByHand) {
  // [4 2; 2 3]·x = [2; 5]: determinant 8, x = (6 − 10, 20 − 4)/8 = (−0.5, 2).
  SquareMatrix a(2);
  a.at(0, 0) = 4, a.at(0, 1) = 2, a.at(1, 0) = 2, a.at(1, 1) = 3;
  const std::vector<double> x = Solve(a, {2, 5});
  EXPECT_NEAR(x[0], -0.5, 1e-12);
  EXPECT_NEAR(x[1], 2.0, 1e-12);
  // Inverse: [3 −2; −2 4]/8.
  const std::vector<double> d = InverseDiagonal(a);
  EXPECT_NEAR(d[0], 3.0 / 8, 1e-12);
  EXPECT_NEAR(d[1], 4.0 / 8, 1e-12);
}

TEST(LeastSquares, RefusesWhatIsNotPositiveDefinite) {
  SquareMatrix a(2);
  a.at(0, 0) = 1, a.at(0, 1) = 2, a.at(1, 0) = 2, a.at(1, 1) = 1;
  EXPECT_THROW(Solve(a, {1, 1}), Error);
}

MeasuredRun RunOf(int number, int hidden, int sequence) {
  MeasuredRun run;
  run.id = "made-" + std::to_string(number);
  run.fields = {{"id", run.id},
                {"hardware", "H100-SXM 80GB"},
                {"n_gpus", "8"},
                {"model_name", "toy-" + std::to_string(hidden)},
                {"layers", "16"},
                {"hidden", std::to_string(hidden)},
                {"ffn_hidden", std::to_string(4 * hidden)},
                {"heads", std::to_string(hidden / 128)},
                {"kv_heads", std::to_string(hidden / 128)},
                {"head_dim", "128"},
                {"vocab", "32000"},
                {"seq_len", std::to_string(sequence)},
                {"global_batch", "64"},
                {"micro_batch", "1"},
                {"dp", "4"},
                {"tp", "2"},
                {"sp", "1"},
                {"pp", "1"},
                {"ep", "1"},
                {"precision", "bf16"},
                {"zero_stage_or_fsdp", "zero1"},
                {"recompute", "off"},
                {"framework", "megatron"},
                {"release", "megatron-bridge 26.06"},
                {"confidence", "3"}};
  return run;
}

// Runs whose times are exactly those of the planner under `truth`.
std::vector<MeasuredRun> MadeRuns(const Calibration& truth) {
  std::vector<MeasuredRun> runs;
  int number = 0;
  for (const int hidden : {2048, 4096, 8192}) {
    for (const int sequence : {4096, 16384}) {
      MeasuredRun run = RunOf(++number, hidden, sequence);
      const RunJob made = MakeRunJob(run, &truth);
      run.fields["measured_iter_time_s"] = std::to_string(PriceStep(made.job, made.one).value());
      runs.push_back(run);
    }
  }
  return runs;
}

TEST(Calibrate, FindsTheConstantsThatMadeTheRuns) {
  Calibration truth = DefaultCalibration();
  truth.constants["matmul.h100.bf16"].value *= 0.90;
  CalibrateOptions options;
  options.id = "found";
  options.leave_out = false;
  options.threads = 1;
  const CalibrationReport report = Calibrate(MadeRuns(truth), options);
  // Six runs cannot outweigh all that was believed before; they take it most of the way.
  EXPECT_GT(report.time_before.median_abs_pct, 3.0);
  EXPECT_LT(report.time.median_abs_pct, report.time_before.median_abs_pct / 3);
  const double moved =
      report.calibration.at("matmul.h100.bf16") / DefaultCalibration().at("matmul.h100.bf16");
  EXPECT_LT(moved, 0.95);
  EXPECT_GT(moved, 0.89);
  EXPECT_EQ(report.calibration.id, "found");
  // What no run can change stays.
  EXPECT_EQ(report.calibration.at("matmul.b200.fp8"), truth.at("matmul.b200.fp8"));
}

TEST(Calibrate, StepTimesAloneEqualThoseOfAWholePrice) {
  const RunJob made = MakeRunJob(RunOf(1, 4096, 4096), nullptr);
  const double whole = Price(made.job, made.one).candidate.step.value();
  EXPECT_NEAR(PriceStep(made.job, made.one).value(), whole, 1e-12 * whole);
}

TEST(Calibrate, AConstantThatOneRunCanChangeIsLeftAlone) {
  Calibration truth = DefaultCalibration();
  std::vector<MeasuredRun> runs = MadeRuns(truth);
  runs[0].fields["release"] = "nemo 24.09";
  const double before = truth.at("release.nemo 24.09");
  CalibrateOptions options;
  options.leave_out = false;
  const CalibrationReport report = Calibrate(runs, options);
  EXPECT_EQ(report.calibration.at("release.nemo 24.09"), before);
  bool said = false;
  for (const FittedConstant& c : report.constants) {
    said = said ||
           (c.name == "release.nemo 24.09" && c.remark == "left alone: only one run can tell it");
  }
  EXPECT_TRUE(said);
}

TEST(Families, OneModelHasOneNameHoweverItIsSpelt) {
  EXPECT_EQ(FamilyOf("Llama3.1-405B"), FamilyOf("llama3.1_405b"));
  EXPECT_EQ(FamilyOf("DeepSeek-V3"), FamilyOf("deepseekv3 w/o MTP"));
  EXPECT_NE(FamilyOf("llama3-8b"), FamilyOf("llama3-70b"));
}

}  // namespace
}  // namespace restow::validate
