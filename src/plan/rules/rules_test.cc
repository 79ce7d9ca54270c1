#include "plan/rules/rules.h"

#include <gtest/gtest.h>

#include <set>

#include "plan/testing/jobs.h"

namespace restow::plan {
namespace {

Layout Fits(const Job& job) {
  Layout l;
  l.dp = job.cluster.devices;
  l.micro_batches = job.training.global_batch / l.dp;
  return l;
}

struct Case {
  const char* rule;
  void (*change)(Job&, Layout&);
  const char* detail;
};

// Each rule broken by one change to a layout that keeps them all; 64 devices, Llama-3-70B's shape.
const Case kCases[] = {
    {"tp-heads",
     [](Job&, Layout& l) {
       l.tp = 128;
       l.dp = 1;
     },
     "tp 128 does not divide the 64 attention heads"},
    {"tp-kv-heads",
     [](Job& job, Layout& l) {
       job.training.framework = Framework::kTorch;
       l.tp = 16;
       l.dp = 4;
     },
     "tp 16 neither divides the 8 key/value heads nor can torch replicate them"},
    {"tp-width",
     [](Job& job, Layout& l) {
       job.model.stack.kinds[0].feed_forward.width = 28671;
       l.tp = 2;
       l.dp = 32;
     },
     "tp 2 does not divide the width 28671"},
    {"sp-needs-tp", [](Job&, Layout& l) { l.sp = true; },
     "sp needs tp above 1: there is nothing to split the sequence over"},
    {"cp-sequence",
     [](Job& job, Layout& l) {
       job.training.sequence = 6;
       l.cp = 4;
       l.dp = 16;
     },
     "2·cp = 8 does not divide the sequence of 6 tokens"},
    {"sp-sequence",
     [](Job& job, Layout& l) {
       job.training.sequence = 12;
       l.sp = true;
       l.tp = 8;
       l.dp = 8;
     },
     "cp·tp = 8 does not divide the sequence of 12 tokens, which sp splits"},
    {"cp-heads",
     [](Job&, Layout& l) {
       l.cp = 16;
       l.cp_kind = CpKind::kAllToAll;
       l.dp = 4;
     },
     "cp 16 by all-to-all does not divide the heads of a rank: 64 query and 8 key/value heads over "
     "tp 1"},
    {"no-experts", [](Job&, Layout& l) { l.ep = 2; },
     "dense has no experts to spread over ep 2 and etp 1"},
    {"world", [](Job&, Layout& l) { l.dp = 32; },
     "tp·cp·pp·dp = 1·1·1·32 = 32 is not the 64 devices"},
    {"pp-layers",
     [](Job& job, Layout& l) {
       job.model.stack.order.resize(32);
       l.pp = 64;
       l.dp = 1;
     },
     "pp 64 leaves stages without one of the 32 layers"},
    {"batch-replicas", [](Job& job, Layout&) { job.training.global_batch = 96; },
     "dp 64 does not divide the global batch of 96 sequences"},
    {"batch", [](Job&, Layout& l) { l.micro_batch = 3; },
     "micro_batch·dp = 3·64 does not divide the global batch of 512 sequences"},
    {"vpp-needs-pp",
     [](Job&, Layout& l) {
       l.vpp = 2;
       l.schedule = Schedule::kInterleaved;
     },
     "vpp 2 needs a pipeline: pp is 1"},
    {"schedule-vpp", [](Job&, Layout& l) { l.schedule = Schedule::kInterleaved; },
     "the interleaved schedule needs vpp above 1"},
    {"vpp-layers",
     [](Job&, Layout& l) {
       l.pp = 16;
       l.dp = 4;
       l.vpp = 6;
       l.schedule = Schedule::kInterleaved;
       l.micro_batches = 128;
     },
     "pp·vpp = 96 leaves chunks without one of the 80 layers"},
    {"interleave-groups",
     [](Job&, Layout& l) {
       l.pp = 4;
       l.dp = 16;
       l.vpp = 2;
       l.schedule = Schedule::kInterleaved;
       l.micro_batches = 30;
     },
     "the interleaved schedule runs micro-batches in groups of pp: 30 do not divide by 4"},
    {"zero-pipeline",
     [](Job&, Layout& l) {
       l.zero = 3;
       l.pp = 2;
       l.dp = 32;
     },
     "zero 3 does not run with a pipeline in megatron: pp is 2"},
    {"zero-framework",
     [](Job& job, Layout& l) {
       job.training.framework = Framework::kTorchtitan;
       l.zero = 1;
     },
     "torchtitan has no optimizer-only sharding (zero 1): it replicates, or shards with FSDP2"},
    {"zero-span",
     [](Job&, Layout& l) {
       l.zero = 1;
       l.zero_span = 7;
     },
     "zero_span 7 does not divide the 64 ranks of dp·cp"},
};

TEST(Rules, EachIsBrokenByItsOwnFaultAndSaysSoWithNumbers) {
  std::set<std::string> broken;
  for (const Case& test : kCases) {
    Job job = Llama70B(64);
    Layout layout = Fits(job);
    ASSERT_FALSE(CheckRules(job, layout)) << "the layout must keep all rules before it is changed";
    test.change(job, layout);
    const auto refusal = CheckRules(job, layout);
    ASSERT_TRUE(refusal) << test.rule;
    EXPECT_EQ(refusal->rule, test.rule);
    EXPECT_EQ(refusal->detail, test.detail);
    EXPECT_FALSE(refusal->numbers.empty());
    broken.insert(refusal->rule);
  }
  const Case experts[] = {
      {"moe-needs-sp",
       [](Job&, Layout& l) {
         l.tp = 2;
         l.dp = 32;
       },
       "megatron runs experts under tp 2 only with sequence parallelism"},
      {"ep-experts", [](Job&, Layout& l) { l.ep = 3; }, "ep 3 does not divide the 256 experts"},
      {"etp-width", [](Job&, Layout& l) { l.etp = 3; },
       "etp 3 does not divide the expert width 2048"},
      {"expert-grid", [](Job&, Layout& l) { l.ep = 256; },
       "ep·etp = 256·1 = 256 does not tile the 64 devices of a stage"},
  };
  for (const Case& test : experts) {
    Job job = DeepSeekV3(64);
    Layout layout = Fits(job);
    ASSERT_FALSE(CheckRules(job, layout));
    test.change(job, layout);
    const auto refusal = CheckRules(job, layout);
    ASSERT_TRUE(refusal) << test.rule;
    EXPECT_EQ(refusal->rule, test.rule);
    EXPECT_EQ(refusal->detail, test.detail);
    broken.insert(refusal->rule);
  }
  EXPECT_EQ(broken.size(), Rules().size()) << "every rule has its case above";
}

TEST(Rules, StandInTheOrderOfTheirLevels) {
  for (std::size_t i = 1; i < Rules().size(); ++i) {
    EXPECT_LE(static_cast<int>(Rules()[i - 1].level), static_cast<int>(Rules()[i].level));
  }
}

}  // namespace
}  // namespace restow::plan
