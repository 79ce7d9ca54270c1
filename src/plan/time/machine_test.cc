#include "plan/time/machine.h"

#include <gtest/gtest.h>

#include "plan/time/test_jobs.h"

namespace restow::plan {
namespace {

using testing::SmallJob;

Job Released(const std::string& release) {
  Job job = SmallJob();
  job.training.release = release;
  return job;
}

std::string ProfileFor(const Job& job) { return ProfileOf(job.training, job.calibration).name; }

TEST(Software, FollowsTheReleaseThenTheFramework) {
  EXPECT_EQ(ProfileFor(Released("")), "megatron");
  EXPECT_EQ(ProfileFor(Released("llm-foundry 2023")), "llm-foundry");
  EXPECT_EQ(ProfileFor(Released("Megatron-LM 2026-04, TE 2.11")), "megatron-no-overlap");
  EXPECT_EQ(ProfileFor(Released("megatron-lm 2021")), "megatron-2021");
  EXPECT_EQ(ProfileFor(Released("something else")), "megatron");
  Job job = SmallJob();
  job.training.framework = Framework::kTorch;
  EXPECT_EQ(ProfileFor(job), "fms-fsdp");
  job.training.options.compile = true;
  EXPECT_EQ(ProfileFor(job), "torchtitan");
  job.training.framework = Framework::kMindFormers;
  EXPECT_EQ(ProfileFor(job), "mindspeed");
}

TEST(Software, EveryEntryOfTheTableNamesAProfile) {
  for (const auto& [release, profile] : DefaultCalibration().software) {
    EXPECT_NO_THROW(ProfileNamed(profile)) << release;
  }
}

TEST(Software, ReleasesCarryTheirFactor) {
  const Job job = Released("megatron-bridge 26.06 cards");
  EXPECT_DOUBLE_EQ(ReleaseFactor(job.training, job.calibration), 0.9337);
  EXPECT_DOUBLE_EQ(ReleaseFactor(SmallJob().training, job.calibration), 1.0);
}

TEST(Machine, ResolvesEveryFrameworkOnEveryDevice) {
  for (const char* silicon :
       {"a100", "h100", "h100-500w", "h200", "b200", "b300", "gb200", "gb300", "910b"}) {
    for (const Framework framework :
         {Framework::kMegatron, Framework::kTorchtitan, Framework::kTorch, Framework::kMindSpeed,
          Framework::kMindFormers, Framework::kHyperParallel}) {
      Job job = SmallJob(silicon);
      job.training.framework = framework;
      const Machine machine(job);
      const Machine::Constants& k = machine.constants();
      EXPECT_GT(k.wide.flops_per_s, 0);
      EXPECT_GT(k.attention_rate, 0);
      EXPECT_GT(k.memory, 0);
      EXPECT_GT(k.traffic, 0);
      EXPECT_GT(k.links.front().rate, 0);
      EXPECT_GT(k.fixed, 0);
    }
  }
}

TEST(Machine, TakesTheNearestDeviceForWhatIsMissing) {
  Job job = SmallJob("910b");
  job.cluster.device.silicon = "910c";
  const Machine c(job);
  const Job original = SmallJob("910b");
  const Machine b(original);
  EXPECT_EQ(c.constants().wide.flops_per_s, b.constants().wide.flops_per_s);
  EXPECT_EQ(c.constants().grouped, b.constants().grouped);
  job.cluster.device.silicon = "unheard-of";
  const Machine other(job);
  EXPECT_DOUBLE_EQ(other.constants().wide.flops_per_s, 313e12 * 0.6959);
}

TEST(Machine, RefusesAPrecisionTheDeviceLacks) {
  Job job = SmallJob("a100");
  job.training.precision.compute = DType::kFp8;
  EXPECT_THROW(Machine{job}, Error);
}

TEST(Machine, StatedLatencyReplacesTheCalibrations) {
  Job job = SmallJob("h100", 16);
  job.cluster.levels[1].latency = Seconds(1e-3);
  const Machine machine(job);
  EXPECT_DOUBLE_EQ(machine.constants().links[1].start, 1e-3);
  EXPECT_DOUBLE_EQ(machine.constants().links[0].start, 5.5e-5);
}

TEST(Machine, LowPrecisionKeepsHeadAndAttentionWide) {
  Job job = SmallJob("h100");
  job.training.precision.compute = DType::kFp8;
  const Machine machine(job);
  EXPECT_DOUBLE_EQ(machine.constants().compute.flops_per_s, 1979e12 * 0.6658);
  EXPECT_DOUBLE_EQ(machine.constants().wide.flops_per_s, 989e12 * 0.6959);
  EXPECT_DOUBLE_EQ(machine.constants().compute.cast_bytes, 3.476);
  job.training.options.fp8_recipe = "rowwise";
  const Machine rowwise(job);
  EXPECT_DOUBLE_EQ(rowwise.constants().compute.flops_per_s, 1979e12 * 0.6658 * 0.4618);
}

}  // namespace
}  // namespace restow::plan
