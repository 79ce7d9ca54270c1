#include "plan/time/attention.h"

#include <gtest/gtest.h>

namespace restow::plan {
namespace {

Attention Causal(int window = 0) {
  Attention attention;
  attention.window = window;
  return attention;
}

TEST(MeanSpan, IsHalfASequenceUnderACausalMaskAndAllOfItWithout) {
  EXPECT_DOUBLE_EQ(MeanSpan(Causal(), 4096), 2048);
  Attention full = Causal();
  full.causal = false;
  EXPECT_DOUBLE_EQ(MeanSpan(full, 4096), 4096);
}

TEST(MeanSpan, UnderAWindowIsItsMeanOverTheSequence) {
  // 8 tokens, window 4: queries see 1, 2, 3, 4, 4, 4, 4, 4 = 26, mean 3.25; the continuous form
  // 4·(1 - 4/16) = 3 counts half of the diagonal less.
  EXPECT_DOUBLE_EQ(MeanSpan(Causal(4), 8), 3);
  EXPECT_DOUBLE_EQ(MeanSpan(Causal(16), 8), 4);
}

struct Case {
  Machine::Constants k;
  Job job;
  LayerKind kind;
  MicroShape shape;

  Pass Seconds(double tokens, double sequence, double heads, double width) {
    LayerContext x{k, job, kind, shape};
    x.sequence = sequence;
    x.tokens = tokens;
    x.heads = heads;
    x.query_width = x.value_width = width;
    return AttentionSeconds(x);
  }
};

TEST(FlashAttention, IsItsCausalFlopsAtTheReachedRate) {
  Case c;
  c.k.attention_rate = 1e12;
  c.k.attention_backward = 0.5;
  // 2 · 4096 tokens · 2048 seen · 2 heads · (128 + 128) = 8,589,934,592 FLOP; backward 2.5 times
  // as many at half the rate.
  const Pass pass = c.Seconds(4096, 4096, 2, 128);
  EXPECT_DOUBLE_EQ(pass.forward, 8.589934592e-3);
  EXPECT_DOUBLE_EQ(pass.backward, 5 * 8.589934592e-3);
}

TEST(FlashAttention, IsSlowerPerFlopWithFewHeadsAndWithNarrowOnes) {
  Case c;
  c.k.attention_rate = 1e12;
  c.k.units = 100;
  c.k.half_items = 1.6;
  // 64 heads of 4096 tokens are 4096·64/128/100 = 20.48 items a unit, 8 heads 2.56.
  const double many = c.Seconds(4096, 4096, 64, 128).forward / 64;
  const double few = c.Seconds(4096, 4096, 8, 128).forward / 8;
  EXPECT_NEAR(few / many, ((2.56 + 1.6) / 2.56) / ((20.48 + 1.6) / 20.48), 1e-12);
  // (64 + 32)/160 of the rate for half the FLOPs.
  const double narrow = c.Seconds(4096, 4096, 64, 64).forward / 64;
  EXPECT_NEAR(narrow / many, 0.5 / 0.6, 1e-12);
}

TEST(UnfusedAttention, GrowsWithTheSquareOfTheSequenceInMemoryTraffic) {
  Case c;
  c.k.flash = false;
  c.k.memory = 1e12;
  c.k.wide.flops_per_s = 1e18;
  c.k.wave = 1;
  c.k.softmax_passes = 4;
  // 1 sequence of 2048, 16 heads: scores 16·2048² = 67,108,864 elements. Softmax: 4 passes of 2
  // bytes. Products: each moves the scores once (2 bytes) and its thin factors (2·2048·128·16).
  const Pass pass = c.Seconds(2048, 2048, 16, 128);
  const double scores = 67108864.0;
  const double thin = 16.0 * 2 * 2048 * 128 * 2;
  EXPECT_NEAR(pass.forward, (scores * 8 + 2 * (scores * 2 + thin)) / 1e12, 1e-9);
}

TEST(UnfusedAttention, CrawlsWhereRowsAreNoMultipleOfSixteenBytes) {
  Case c;
  c.k.flash = false;
  c.k.memory = 1e15;
  c.k.wide.flops_per_s = 1e12;
  c.k.wave = 1;
  c.k.unaligned = 0.1;
  const double aligned = c.Seconds(2048, 2048, 16, 112).forward;
  EXPECT_GT(c.Seconds(2048, 2048, 16, 108).forward, 9 * aligned);
}

}  // namespace
}  // namespace restow::plan
