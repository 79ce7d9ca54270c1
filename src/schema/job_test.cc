#include "restow/schema/job.h"

#include <gtest/gtest.h>

namespace restow {
namespace {

TEST(Job, APlaceIsThatOfTheNearestStatedParent) {
  Job job;
  job.where[""] = {"job", 1, 1};
  job.where["search"] = {"job", 5, 3};
  job.where["search.tp"] = {"job", 6, 7};
  EXPECT_EQ(ToString(job.At("search.tp")), "job:6:7");
  EXPECT_EQ(ToString(job.At("search.tp[2]")), "job:6:7");
  EXPECT_EQ(ToString(job.At("search.pp")), "job:5:3");
  EXPECT_EQ(ToString(job.At("training.sequence")), "job:1:1");
  EXPECT_EQ(ToString(Job{}.At("search.tp")), "");
}

TEST(Job, TheMarginIsTheStatedOneOrFourInAHundred) {
  Job job;
  job.cluster.device.memory = Bytes(100 * kGiB);
  EXPECT_EQ(job.Margin().value(), 4 * kGiB);
  job.search.margin = Bytes(0);
  EXPECT_EQ(job.Margin().value(), 0);
}

}  // namespace
}  // namespace restow
