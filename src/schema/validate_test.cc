// What Validate holds for jobs built in code, where no reader stood in between. The messages of
// what files can state are in io/bad_input_test.cc.
#include <gmock/gmock.h>

#include <functional>

#include "restow/schema/job.h"

namespace restow {
namespace {

using testing::HasSubstr;

Job SmallJob() {
  Job job;
  LayerKind kind;
  kind.name = "dense";
  kind.hidden = 64;
  kind.attention.heads = 8;
  kind.attention.kv_heads = 4;
  kind.attention.head_dim = 8;
  kind.feed_forward.width = 256;
  job.model.stack.kinds = {kind};
  job.model.stack.order = {0, 0, 0, 0};
  job.model.vocab = 1000;
  job.cluster.device.name = "small";
  job.cluster.device.memory = Bytes(kGiB);
  job.cluster.device.memory_bandwidth = BytesPerSecond(1e12);
  job.cluster.device.peak[DType::kBf16] = FlopsPerSecond(1e14);
  job.cluster.devices = 8;
  job.cluster.per_node = 8;
  job.cluster.levels = {{"link", 8, BytesPerSecond(1e11), Seconds(0)}};
  job.training.sequence = 128;
  job.training.global_batch = 32;
  return job;
}

std::string FaultOf(const std::function<void(Job&)>& spoil) {
  Job job = SmallJob();
  spoil(job);
  try {
    Validate(job);
    ValidateSearch(job);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.what();
  }
  return "";
}

Dimension<int> Values(std::vector<int> values) { return {true, false, std::move(values), {}}; }

TEST(Validate, ASoundJobPasses) {
  EXPECT_EQ(FaultOf([](Job&) {}), "");
}

TEST(Validate, ModelsHaveLayersHeadsAndWidths) {
  EXPECT_THAT(FaultOf([](Job& j) { j.model.stack.order.clear(); }), HasSubstr("model.layers is 0"));
  EXPECT_THAT(FaultOf([](Job& j) { j.model.stack.order[0] = 1; }), HasSubstr("of kind 1"));
  EXPECT_THAT(FaultOf([](Job& j) { j.model.vocab = 0; }), HasSubstr("model.vocab is 0"));
  EXPECT_THAT(FaultOf([](Job& j) { j.model.stack.kinds[0].hidden = 0; }),
              HasSubstr("model.hidden is 0"));
  EXPECT_THAT(FaultOf([](Job& j) { j.model.stack.kinds[0].attention.kv_heads = 3; }),
              HasSubstr("model.kv_heads is 3; a divisor of the 8 heads"));
  EXPECT_THAT(FaultOf([](Job& j) {
                j.model.stack.kinds[0].feed_forward.experts = Experts{4, 5, 8};
              }),
              HasSubstr("model.experts_per_token is 5; a number from 1 to the 4 experts"));
}

TEST(Validate, LearnedPositionsBoundTheSequence) {
  EXPECT_THAT(FaultOf([](Job& j) { j.model.positions = 64; }),
              HasSubstr("training.sequence is 128; the model's learned positions end at 64"));
  EXPECT_EQ(FaultOf([](Job& j) { j.model.context = 64; }), "");
}

TEST(Validate, RecomputeByLayerCoversTheModel) {
  EXPECT_THAT(FaultOf([](Job& j) {
                j.current = CurrentStrategy{};
                j.current->recompute = RecomputePlan{Recompute::kOff, {Recompute::kFull}};
              }),
              HasSubstr("current.recompute covers 1 layers; the model has 4"));
}

// Brute force over every batch: refused exactly when no stated dp and micro-batch divides it, and
// the batch proposed is one that works with none nearer.
TEST(Validate, BatchesAreRefusedExactlyWhenNoneOfTheStatedSplitsDivides) {
  const std::vector<int> dp = {2, 4};
  const std::vector<int> micro = {3, 5};
  const auto works = [&](int batch) {
    for (const int d : dp) {
      for (const int m : micro) {
        if (batch > 0 && batch % (d * m) == 0) return true;
      }
    }
    return false;
  };
  for (int batch = 1; batch <= 130; ++batch) {
    const std::string fault = FaultOf([&](Job& j) {
      j.training.global_batch = batch;
      j.search.dp = Values(dp);
      j.search.micro_batch = Values(micro);
    });
    EXPECT_EQ(fault.empty(), works(batch)) << batch;
    if (fault.empty()) continue;
    const int proposed = std::stoi(fault.substr(fault.rfind(' ') + 1));
    EXPECT_TRUE(works(proposed)) << batch;
    for (int off = 1; off < std::abs(proposed - batch); ++off) {
      EXPECT_FALSE(works(batch - off) || works(batch + off)) << batch;
    }
  }
}

// Brute force over the grid: refused exactly when no combination of stated degrees fills 8 devices.
TEST(Validate, DegreesAreRefusedExactlyWhenNoCombinationFillsTheDevices) {
  for (int tp = 1; tp <= 9; ++tp) {
    for (int pp = 1; pp <= 9; ++pp) {
      for (int dp = 1; dp <= 9; ++dp) {
        const std::string fault = FaultOf([&](Job& j) {
          j.training.global_batch = 2520;  // divisible by every dp up to 9
          j.search.tp = Values({tp});
          j.search.cp = Values({1});
          j.search.pp = Values({pp});
          j.search.dp = Values({dp});
        });
        EXPECT_EQ(fault.empty(), tp * pp * dp == 8) << tp << " " << pp << " " << dp;
      }
    }
  }
}

TEST(Validate, ADegreeLeftOpenRefusesNothing) {
  EXPECT_EQ(FaultOf([](Job& j) { j.search.tp = Values({3}); }), "");
  EXPECT_EQ(FaultOf([](Job& j) {
              j.search.tp = Values({2});
              j.search.pp = Values({2});
              j.search.cp.stated = j.search.cp.automatic = true;
            }),
            "");
}

}  // namespace
}  // namespace restow
