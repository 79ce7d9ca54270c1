#include "plan/testing/jobs.h"

#include <fmt/format.h>

#include <random>

#include "restow/io/presets.h"

namespace restow::plan {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  bool Chance(int percent) { return static_cast<int>(engine_() % 100) < percent; }
  template <class T>
  T Of(std::vector<T> values) {
    return values[engine_() % values.size()];
  }
  // A non-empty part of the values, in their order.
  template <class T>
  std::vector<T> Some(const std::vector<T>& values) {
    std::vector<T> some;
    for (const T& value : values) {
      if (Chance(50)) some.push_back(value);
    }
    if (some.empty()) some.push_back(Of(values));
    return some;
  }
  // Unstated, auto, or a list.
  template <class T>
  Dimension<T> Dim(const std::vector<T>& values) {
    Dimension<T> dimension;
    dimension.stated = Chance(70);
    dimension.automatic = dimension.stated && Chance(60);
    if (dimension.stated && !dimension.automatic) dimension.values = Some(values);
    return dimension;
  }

 private:
  std::mt19937_64 engine_;
};

void AddExperts(Random& random, Model& model) {
  LayerKind moe = model.stack.kinds.front();
  moe.name = "moe";
  Experts experts;
  experts.count = random.Of<int>({4, 6, 8});
  experts.per_token = 2;
  experts.width = random.Of<int>({64, 96});
  experts.shared_width = random.Of<int>({0, 64});
  moe.feed_forward.experts = experts;
  model.stack.kinds.push_back(moe);
  for (std::size_t i = 1; i < model.stack.order.size(); ++i) model.stack.order[i] = 1;
}

void AddTower(Random& random, Model& model) {
  Tower tower;
  tower.name = "vision_tower";
  LayerKind kind = DenseModel(1, 64, 4, 4, 128, 8).stack.kinds.front();
  kind.name = "vision";
  kind.attention.causal = false;
  kind.feed_forward.gated = false;
  tower.stack.kinds = {kind};
  tower.stack.order.assign(static_cast<std::size_t>(random.Of<int>({1, 3})), 0);
  tower.other_parameters = 5000;
  tower.patches = 64;
  tower.merge = 4;
  model.towers.push_back(tower);
  model.projector_parameters = 4096;
}

Model RandomModel(Random& random) {
  const int heads = random.Of<int>({4, 6, 8});
  Model model = DenseModel(random.Of<int>({2, 3, 4, 6, 8}), heads * 32, heads,
                           random.Of<int>({1, 2, heads}), random.Of<int>({256, 384}), 1000);
  if (model.stack.kinds.front().attention.heads % model.stack.kinds.front().attention.kv_heads !=
      0) {
    model.stack.kinds.front().attention.kv_heads = 1;
  }
  if (random.Chance(25))
    model.stack.kinds.front().attention.latent = LatentAttention{32, 16, 16, 8, 16};
  if (random.Chance(50)) AddExperts(random, model);
  if (random.Chance(20)) AddTower(random, model);
  model.tied = random.Chance(30);
  if (random.Chance(20)) {
    model.mtp_layers = 1;
    model.mtp_kind = static_cast<int>(model.stack.kinds.size()) - 1;
  }
  return model;
}

}  // namespace

Cluster TestCluster(int devices, Bytes memory) {
  Device device;
  device.name = "test-h100";
  device.silicon = "h100";
  device.peak[DType::kBf16] = FlopsPerSecond(989e12);
  device.peak[DType::kFp16] = FlopsPerSecond(989e12);
  device.peak[DType::kFp8] = FlopsPerSecond(1979e12);
  device.memory = memory;
  device.memory_bandwidth = BytesPerSecond(3.35e12);
  device.host_link = BytesPerSecond(55e9);
  device.host_memory = Bytes(2'000'000'000'000);
  device.compute_units = 132;
  Cluster cluster;
  cluster.device = device;
  cluster.devices = devices;
  cluster.per_node = std::min(devices, 8);
  cluster.levels.push_back({"nvlink", cluster.per_node, BytesPerSecond(450e9), Seconds(0)});
  if (devices > cluster.per_node) {
    cluster.levels.push_back({"ib", devices, BytesPerSecond(50e9), Seconds(0)});
  }
  return cluster;
}

Model DenseModel(int layers, int hidden, int heads, int kv_heads, int ffn, int vocab) {
  LayerKind kind;
  kind.name = "dense";
  kind.hidden = hidden;
  kind.attention.heads = heads;
  kind.attention.kv_heads = kv_heads;
  kind.attention.head_dim = hidden / heads;
  kind.feed_forward.width = ffn;
  Model model;
  model.name = "dense";
  model.family = "llama";
  model.stack.kinds = {kind};
  model.stack.order.assign(static_cast<std::size_t>(layers), 0);
  model.vocab = vocab;
  return model;
}

Job Llama70B(int devices) {
  Job job;
  job.name = "llama3-70b";
  job.model = DenseModel(80, 8192, 64, 8, 28672, 128256);
  job.cluster = TestCluster(devices, Bytes(std::int64_t{791} * kGiB / 10));
  job.training.sequence = 8192;
  job.training.global_batch = 512;
  job.calibration = DefaultCalibration();
  return job;
}

Job DeepSeekV3(int devices) {
  Job job = Llama70B(devices);
  job.name = "deepseek-v3";
  Model model = DenseModel(61, 7168, 128, 128, 18432, 129280);
  model.stack.kinds[0].attention.latent = LatentAttention{1536, 512, 128, 64, 128};
  LayerKind moe = model.stack.kinds[0];
  moe.name = "moe";
  Experts experts;
  experts.count = 256;
  experts.per_token = 8;
  experts.width = 2048;
  experts.shared_width = 2048;
  experts.router_bias = true;
  moe.feed_forward.experts = experts;
  model.stack.kinds.push_back(moe);
  for (std::size_t i = 3; i < 61; ++i) model.stack.order[i] = 1;
  model.mtp_layers = 1;
  model.mtp_kind = 1;
  job.model = model;
  job.cluster.levels[0].bandwidth = BytesPerSecond(200e9);
  job.training.sequence = 4096;
  job.training.global_batch = 15360;
  return job;
}

Job RandomJob(std::uint64_t seed) {
  Random random(seed);
  Job job;
  job.name = fmt::format("random-{}", seed);
  job.model = RandomModel(random);
  job.cluster = TestCluster(random.Of<int>({1, 2, 4, 6, 8, 16}),
                            Bytes(random.Of<std::int64_t>({120, 200, 400, 2000}) * kMiB));
  job.training.sequence = random.Of<int>({128, 256, 512});
  job.training.global_batch = random.Of<int>({4, 8, 12, 16});
  job.training.framework =
      random.Of<Framework>({Framework::kMegatron, Framework::kTorchtitan, Framework::kTorch,
                            Framework::kMindSpeed, Framework::kHyperParallel});
  if (random.Chance(20)) job.training.attention = AttentionKernel::kUnfused;
  job.calibration = DefaultCalibration();
  SearchSpace& search = job.search;
  search.tp = random.Dim<int>({1, 2, 3, 4, 8});
  search.cp = random.Dim<int>({1, 2});
  search.pp = random.Dim<int>({1, 2, 3, 4});
  search.vpp = random.Dim<int>({1, 2, 3});
  if (job.model.has_experts()) {
    search.ep = random.Dim<int>({1, 2, 4});
    search.etp = random.Dim<int>({1, 2});
  }
  search.micro_batch = random.Dim<int>({1, 2, 4});
  search.zero = random.Dim<int>({0, 1, 2, 3});
  search.sp = random.Dim<bool>({false, true});
  search.cp_kind = random.Dim<CpKind>({CpKind::kRing, CpKind::kAllToAll});
  search.schedule =
      random.Dim<Schedule>({Schedule::kGpipe, Schedule::k1F1B, Schedule::kInterleaved});
  search.recompute =
      random.Dim<Recompute>({Recompute::kOff, Recompute::kSelective, Recompute::kFull});
  if (search.recompute.automatic) {
    search.recompute.values = {Recompute::kOff, Recompute::kSelective, Recompute::kFull};
  }
  search.margin = Bytes(0);
  return job;
}

}  // namespace restow::plan
