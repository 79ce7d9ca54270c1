#include "plan/time/layer.h"

#include <gtest/gtest.h>

#include "plan/time/collective.h"
#include "plan/time/test_jobs.h"

namespace restow::plan {
namespace {

using testing::SmallJob;
using testing::TermOf;

struct Bench {
  Job job;
  KindTable kinds;
  Machine machine;

  explicit Bench(Job from) : job(std::move(from)), kinds(job.model), machine(job) {}
  LayerSeconds Price(const MicroShape& shape, Recompute mode = Recompute::kOff,
                     int kind = 0) const {
    return PriceLayerSeconds(machine, kinds.entries[static_cast<std::size_t>(kind)], shape, mode);
  }
};

MicroShape Shape(int tp, bool sp = false) {
  MicroShape shape;
  shape.tp = tp;
  shape.sp = sp;
  return shape;
}

double Work(const LayerSeconds& s) { return (s.forward_total + s.backward_total).value(); }

Job ExpertJob(int devices = 32) {
  Job job = SmallJob("h100", devices);
  LayerKind& kind = job.model.stack.kinds[0];
  kind.feed_forward.experts = Experts{64, 8, 1408, 2816};
  return job;
}

TEST(Layer, TermsSumToItsTotals) {
  const Bench bench(ExpertJob());
  for (const Recompute mode : {Recompute::kOff, Recompute::kSelective, Recompute::kFull}) {
    MicroShape shape = Shape(2, true);
    shape.ep = 8;
    shape.cp = 2;
    const LayerSeconds s = bench.Price(shape, mode);
    Seconds forward, backward = s.recompute;
    for (const Seconds t : s.forward) forward += t;
    for (const Seconds t : s.backward) backward += t;
    EXPECT_DOUBLE_EQ(forward.value(), s.forward_total.value());
    EXPECT_DOUBLE_EQ(backward.value(), s.backward_total.value());
  }
}

TEST(Layer, PaysForItsMultiplicationsAtTheReachedRate) {
  // Llama-2 7B layer, 4096 tokens: 4·4096² + 3·4096·11008 = 202.4 M weights, 2 FLOP each and token
  // forward: 1.658 TFLOP at 989 · 0.6959 TFLOP/s is 2.409 ms at least; waves and inner dimension
  // cost up to 15 % more.
  const Bench bench(SmallJob());
  const double matmul = TermOf(bench.Price(Shape(1)).forward, TimeTerm::kMatmul).value();
  EXPECT_GT(matmul, 2.409e-3);
  EXPECT_LT(matmul, 1.15 * 2.409e-3);
}

TEST(Layer, TensorParallelTrafficDependsOnTokens) {
  const Bench bench(SmallJob());
  MicroShape shape = Shape(8, true);
  const double one = TermOf(bench.Price(shape).forward, TimeTerm::kTensorParallel).value();
  shape.micro_batch = 4;
  const double four = TermOf(bench.Price(shape).forward, TimeTerm::kTensorParallel).value();
  // Three more micro-batches of four gathers, 0.2295 of them exposed.
  EXPECT_NEAR(four - one, 3 * 4 * 0.2295 * 4096.0 * 4096 * 2 * 7 / 8 / 337.5e9, 1e-12);
}

TEST(Layer, TensorParallelCollectivesAreFourGathersForward) {
  Job job = SmallJob();
  job.training.options.tp_overlap = false;
  const Bench bench(std::move(job));
  // Two blocks, gather and scatter each, of 4096 · 4096 · 2 bytes over 8 at 337.5 GB/s.
  const double one = 4096.0 * 4096 * 2 * 7 / 8 / 337.5e9 + 5.5e-5 + 7 * 3.3e-6;
  const LayerSeconds s = bench.Price(Shape(8, true));
  EXPECT_NEAR(TermOf(s.forward, TimeTerm::kTensorParallel).value(), 4 * one, 1e-12);
  // Backward gathers the input once more per block for the weight gradient.
  EXPECT_NEAR(TermOf(s.backward, TimeTerm::kTensorParallel).value(), 5 * one, 1e-12);
}

TEST(Layer, OverlapMovesTensorParallelTrafficIntoHidden) {
  const Bench hidden(SmallJob());
  Job job = SmallJob();
  job.training.options.tp_overlap = false;
  const Bench open(std::move(job));
  const LayerSeconds a = hidden.Price(Shape(8, true)), b = open.Price(Shape(8, true));
  const auto all = [](const LayerSeconds& s) {
    return (TermOf(s.forward, TimeTerm::kTensorParallel) +
            TermOf(s.backward, TimeTerm::kTensorParallel) +
            TermOf(s.hidden, TimeTerm::kTensorParallel))
        .value();
  };
  EXPECT_NEAR(all(a), all(b), 1e-12);
  EXPECT_LT(Work(a), Work(b));
}

TEST(Layer, OnNvl72WideTensorParallelRunsExposedUnlessTheJobSaysOtherwise) {
  Job job = SmallJob("gb200", 64);
  const Bench unstated(job);
  job.training.options.tp_overlap = true;
  const Bench stated(job);
  EXPECT_EQ(TermOf(unstated.Price(Shape(8, true)).hidden, TimeTerm::kTensorParallel).value(), 0);
  EXPECT_GT(TermOf(stated.Price(Shape(8, true)).hidden, TimeTerm::kTensorParallel).value(), 0);
  EXPECT_GT(TermOf(unstated.Price(Shape(4, true)).hidden, TimeTerm::kTensorParallel).value(), 0);
}

TEST(Layer, SequenceParallelChangesElementwiseWorkAndTraffic) {
  const Bench bench(SmallJob());
  const LayerSeconds with = bench.Price(Shape(8, true)), without = bench.Price(Shape(8, false));
  EXPECT_LT(TermOf(with.forward, TimeTerm::kElementwise),
            TermOf(without.forward, TimeTerm::kElementwise));
  EXPECT_GT(TermOf(with.backward, TimeTerm::kTensorParallel),
            TermOf(without.backward, TimeTerm::kTensorParallel));
}

TEST(Layer, RingContextParallelHidesUnderAttentionAndAllToAllDoesNot) {
  Job job = SmallJob("h100", 8);
  job.training.sequence = 131072;
  const Bench bench(std::move(job));
  MicroShape shape = Shape(1);
  shape.cp = 8;
  const LayerSeconds ring = bench.Price(shape);
  // 0.3 of 2·16384 tokens · 32 heads · 128 · 2 bytes · 7 steps at 337.5 GB/s and 7 starts.
  const double all = 2.0 * 16384 * 32 * 128 * 2 * 7 / 337.5e9 + 7 * 5.5e-5;
  EXPECT_NEAR(TermOf(ring.forward, TimeTerm::kContextParallel).value(), 0.3 * all, 1e-12);
  EXPECT_NEAR(TermOf(ring.hidden, TimeTerm::kContextParallel).value(), 0.7 * 3 * all, 1e-12);
  shape.cp_kind = CpKind::kAllToAll;
  EXPECT_EQ(TermOf(bench.Price(shape).hidden, TimeTerm::kContextParallel).value(), 0);
}

TEST(Layer, FullRecomputeReplaysTheForwardCollectivesIncluded) {
  const Bench bench(SmallJob());
  const LayerSeconds s = bench.Price(Shape(8, true), Recompute::kFull);
  EXPECT_DOUBLE_EQ(s.recompute.value(), s.forward_total.value());
  EXPECT_EQ(bench.Price(Shape(8, true)).recompute.value(), 0.0);
}

TEST(Layer, MegatronsSelectiveReplaysTheCoreOfAttention) {
  const Bench bench(SmallJob());
  const LayerSeconds s = bench.Price(Shape(1), Recompute::kSelective);
  EXPECT_DOUBLE_EQ(s.recompute.value(), TermOf(s.forward, TimeTerm::kAttention).value());
}

TEST(Layer, TheJobsOwnModuleListStands) {
  Job job = SmallJob();
  job.training.options.recompute_modules = {"mlp"};
  const Bench bench(job);
  const LayerSeconds s = bench.Price(Shape(1), Recompute::kSelective);
  EXPECT_GT(s.recompute, 0.5 * TermOf(s.forward, TimeTerm::kMatmul));
  EXPECT_LT(s.recompute, s.forward_total);
  job.training.options.recompute_modules = {"mpl"};
  EXPECT_THROW(Bench{job}, Error);
}

TEST(Layer, TorchtitansSelectiveReplaysHalfTheProductsAndAllElementwiseWork) {
  Job job = SmallJob();
  job.training.framework = Framework::kTorchtitan;
  const Bench bench(std::move(job));
  const LayerSeconds s = bench.Price(Shape(1), Recompute::kSelective);
  EXPECT_NEAR(s.recompute.value(),
              0.5 * TermOf(s.forward, TimeTerm::kMatmul).value() +
                  TermOf(s.forward, TimeTerm::kElementwise).value(),
              1e-12);
}

TEST(Layer, HyperParallelsSelectiveIsNeverFasterThanItsFull) {
  for (const int sequence : {512, 4096, 32768}) {
    Job job = SmallJob("910b", 8);
    job.training.framework = Framework::kHyperParallel;
    job.training.sequence = sequence;
    const Bench bench(std::move(job));
    const double selective = Work(bench.Price(Shape(1), Recompute::kSelective));
    const double full = Work(bench.Price(Shape(1), Recompute::kFull));
    EXPECT_GE(selective, full);
    EXPECT_GT(full, Work(bench.Price(Shape(1))));
  }
}

TEST(Layer, EagerSelectivePaysPythonForEveryOperatorOfAShortLayer) {
  Job job = SmallJob();
  job.training.framework = Framework::kTorch;
  job.training.sequence = 128;
  const Bench eager(job);
  job.training.options.compile = true;
  const Bench compiled(job);
  const auto host = [](const LayerSeconds& s) { return TermOf(s.forward, TimeTerm::kHost); };
  EXPECT_GT(host(eager.Price(Shape(1), Recompute::kSelective)),
            host(eager.Price(Shape(1), Recompute::kFull)));
  EXPECT_EQ(host(compiled.Price(Shape(1), Recompute::kSelective)),
            host(compiled.Price(Shape(1), Recompute::kFull)));
}

TEST(Layer, ModesCostWhatTheyRerunInEveryFramework) {
  for (const Framework framework : {Framework::kMegatron, Framework::kTorchtitan, Framework::kTorch,
                                    Framework::kMindSpeed, Framework::kMindFormers}) {
    Job job = SmallJob();
    job.training.framework = framework;
    const Bench bench(std::move(job));
    const double off = Work(bench.Price(Shape(1)));
    const double selective = Work(bench.Price(Shape(1), Recompute::kSelective));
    const double full = Work(bench.Price(Shape(1), Recompute::kFull));
    EXPECT_LT(off, selective) << Name(framework);
    EXPECT_LT(selective, full) << Name(framework);
  }
}

TEST(Experts, DispatchAndCombineOneAllToAllEach) {
  Job job = ExpertJob();
  job.training.options.dispatcher = "all-to-all";
  const Bench bench(std::move(job));
  MicroShape shape = Shape(1);
  shape.dp = 32;
  shape.ep = 32;
  // 4096 tokens · 8 choices · 4096 · 2 bytes = 268 MB; over four nodes 3/4 crosses at 40 GB/s.
  // Two of them, 0.3099 exposed.
  const double one = 4096.0 * 8 * 4096 * 2 * 0.75 / 40e9 + 5.5e-5;
  const LayerSeconds s = bench.Price(shape);
  EXPECT_NEAR(TermOf(s.forward, TimeTerm::kExpertParallel).value(), 0.3099 * 2 * one, 1e-9);
  EXPECT_NEAR(TermOf(s.hidden, TimeTerm::kExpertParallel).value(), 2 * 0.6901 * 2 * one, 1e-9);
}

TEST(Experts, OneCopyPerNodeIsCheaper) {
  Job job = ExpertJob();
  const Bench once(job);
  job.training.options.dispatcher = "all-to-all";
  const Bench plain(job);
  MicroShape shape = Shape(1);
  shape.dp = shape.ep = 32;
  EXPECT_LT(TermOf(once.Price(shape).forward, TimeTerm::kExpertParallel),
            0.6 * TermOf(plain.Price(shape).forward, TimeTerm::kExpertParallel));
}

TEST(Experts, ImbalanceSlowsTheWorstRank) {
  Job job = ExpertJob();
  MicroShape shape = Shape(1);
  shape.dp = shape.ep = 8;
  const Bench balanced(job);
  job.training.options.moe_imbalance = 1.5;
  const Bench worst(job);
  EXPECT_GT(TermOf(worst.Price(shape).forward, TimeTerm::kMatmul),
            1.1 * TermOf(balanced.Price(shape).forward, TimeTerm::kMatmul));
}

TEST(Experts, OfFewTokensAreBoundByTheHostUntilTheyAreInOneGraph) {
  Job job = ExpertJob(8);
  job.training.sequence = 512;
  MicroShape shape = Shape(1);
  shape.dp = shape.ep = 8;
  const Bench eager(job);
  // 12.87 ms per layer and micro-batch, and 0.1 ms of stall.
  EXPECT_NEAR(Work(eager.Price(shape)), 12.87e-3 + 1e-4, 1e-5);
  job.training.options.moe_launch = "full";
  const Bench graph(job);
  EXPECT_LT(Work(graph.Price(shape)), 6e-3);
}

TEST(Frozen, LayersPassGradientsOnButHaveNoneOfTheirOwn) {
  Job job = SmallJob();
  job.training.frozen = {"layers.*"};
  const Bench frozen(job);
  const Bench trained(SmallJob());
  const double a = TermOf(frozen.Price(Shape(1)).backward, TimeTerm::kMatmul).value();
  const double b = TermOf(trained.Price(Shape(1)).backward, TimeTerm::kMatmul).value();
  EXPECT_NEAR(a / b, 0.5, 0.03);
}

TEST(Frozen, LoraAddsItsAdaptersToFrozenLayers) {
  Job job = SmallJob();
  job.training.frozen = {"layers.*"};
  const Bench frozen(job);
  job.training.lora = Lora{16, {"q_proj", "v_proj"}};
  const Bench lora(job);
  const double a = TermOf(frozen.Price(Shape(1)).forward, TimeTerm::kMatmul).value();
  const double b = TermOf(lora.Price(Shape(1)).forward, TimeTerm::kMatmul).value();
  EXPECT_GT(b, a);
  EXPECT_LT(b, 1.25 * a);
}

Job VisionJob() {
  Job job = SmallJob();
  Tower tower;
  tower.name = "visual";
  tower.stack.kinds = {testing::DenseKind(1280, 5120, 16, 16, 80, false)};
  tower.stack.kinds[0].attention.causal = false;
  tower.stack.order.assign(32, 0);
  tower.patches = 1024;
  tower.merge = 4;
  job.model.towers = {tower};
  return job;
}

TEST(Tower, IsOneTermAndIgnoresContextParallelism) {
  const Bench bench(VisionJob());
  MicroShape shape = Shape(1);
  const LayerSeconds one = bench.Price(shape, Recompute::kOff, 1);
  EXPECT_EQ(TermOf(one.forward, TimeTerm::kTower), one.forward_total);
  EXPECT_GT(one.forward_total.value(), 0);
  shape.cp = 4;
  EXPECT_EQ(bench.Price(shape, Recompute::kOff, 1).forward_total, one.forward_total);
}

TEST(Tower, IsReplicatedWhereItsHeadsDoNotDivide) {
  const Bench bench(VisionJob());
  const Seconds whole = bench.Price(Shape(1), Recompute::kOff, 1).forward_total;
  // Four ranks share its 16 heads and exchange activations, three cannot.
  EXPECT_GT(TermOf(bench.Price(Shape(4), Recompute::kOff, 1).hidden, TimeTerm::kTower).value(), 0);
  EXPECT_EQ(TermOf(bench.Price(Shape(3), Recompute::kOff, 1).hidden, TimeTerm::kTower).value(), 0);
  EXPECT_EQ(bench.Price(Shape(3), Recompute::kOff, 1).forward_total, whole);
}

TEST(Tower, FrozenAtTheBottomHasNoBackwardHoweverItIsSpelt) {
  for (const char* glob : {"visual", "model.visual", "visual.**", "visual.*"}) {
    Job job = VisionJob();
    job.training.frozen = {glob};
    const Bench bench(std::move(job));
    const LayerSeconds s = bench.Price(Shape(1), Recompute::kFull, 1);
    EXPECT_GT(s.forward_total.value(), 0) << glob;
    EXPECT_EQ(s.backward_total.value(), 0) << glob;
  }
}

}  // namespace
}  // namespace restow::plan
