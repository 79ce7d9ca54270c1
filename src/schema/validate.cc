// Checks across fields: what no reader of a single field can see.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "restow/base/error.h"
#include "restow/base/text.h"
#include "restow/base/units.h"
#include "restow/schema/job.h"

namespace restow {
namespace {

// ---- Model -----------------------------------------------------------------------------------

void RequirePositive(const Job& job, const char* path, std::int64_t value) {
  if (value > 0) return;
  ThrowBadInput(fmt::format("{} is {}; a value above zero is expected", path, value), job.At(path));
}

void CheckAttention(const Job& job, const LayerKind& kind) {
  const Attention& attention = kind.attention;
  RequirePositive(job, "model.heads", attention.heads);
  if (attention.latent) {
    RequirePositive(job, "model.mla", attention.latent->kv_rank);
    return;
  }
  RequirePositive(job, "model.kv_heads", attention.kv_heads);
  RequirePositive(job, "model.head_dim", attention.head_dim);
  if (attention.heads % attention.kv_heads != 0) {
    ThrowBadInput(fmt::format("model.kv_heads is {}; a divisor of the {} heads is expected",
                              attention.kv_heads, attention.heads),
                  job.At("model.kv_heads"));
  }
}

void CheckExperts(const Job& job, const Experts& experts) {
  RequirePositive(job, "model.experts", experts.count);
  RequirePositive(job, "model.expert_ffn", experts.width);
  if (experts.per_token < 1 || experts.per_token > experts.count) {
    ThrowBadInput(fmt::format("model.experts_per_token is {}; a number from 1 to the {} experts is "
                              "expected",
                              experts.per_token, experts.count),
                  job.At("model.experts_per_token"));
  }
}

void CheckStack(const Job& job, const LayerStack& stack) {
  RequirePositive(job, "model.layers", stack.layers());
  for (const int kind : stack.order) {
    if (kind < 0 || kind >= static_cast<int>(stack.kinds.size())) {
      ThrowBadInput(
          fmt::format("a layer is of kind {}; the model has {} kinds", kind, stack.kinds.size()),
          job.At("model"));
    }
  }
  for (const LayerKind& kind : stack.kinds) {
    RequirePositive(job, "model.hidden", kind.hidden);
    CheckAttention(job, kind);
    if (kind.feed_forward.experts) CheckExperts(job, *kind.feed_forward.experts);
  }
}

void CheckModel(const Job& job) {
  CheckStack(job, job.model.stack);
  RequirePositive(job, "model.vocab", job.model.vocab);
  for (const Tower& tower : job.model.towers) CheckStack(job, tower.stack);
}

// ---- Cluster ---------------------------------------------------------------------------------

void CheckDevice(const Job& job) {
  const Device& device = job.cluster.device;
  RequirePositive(job, "cluster.device.memory", device.memory.value());
  if (!(device.memory_bandwidth.value() > 0)) {
    ThrowBadInput("cluster.device.memory_bandwidth is not above zero", job.At("cluster.device"));
  }
  const DType compute = job.training.precision.compute;
  if (device.peak.count(compute) != 0) return;
  std::vector<std::string> known;
  for (const auto& [dtype, rate] : device.peak) known.emplace_back(Name(dtype));
  ThrowBadInput(fmt::format("training.precision computes in {}, for which device '{}' states no "
                            "peak rate; allowed: {}",
                            Name(compute), device.name, JoinWords(known, "or")),
                job.At("training.precision"));
}

void CheckLevels(const Job& job) {
  const Cluster& cluster = job.cluster;
  int below = 0;
  for (const Level& level : cluster.levels) {
    if (level.size <= below || !(level.bandwidth.value() > 0)) {
      ThrowBadInput(fmt::format("cluster.levels: '{}' holds {} devices after a level of {}; sizes "
                                "grow from the inside out and bandwidths are above zero",
                                level.name, level.size, below),
                    job.At("cluster.levels"));
    }
    below = level.size;
  }
  if (below != cluster.devices) {
    ThrowBadInput(fmt::format("cluster.levels: the last level holds {} devices; it is to hold all "
                              "{} of cluster.devices",
                              below, cluster.devices),
                  job.At("cluster.levels"));
  }
}

void CheckCluster(const Job& job) {
  const Cluster& cluster = job.cluster;
  RequirePositive(job, "cluster.devices", cluster.devices);
  RequirePositive(job, "cluster.per_node", cluster.per_node);
  if (cluster.per_node > cluster.devices || cluster.devices % cluster.per_node != 0) {
    ThrowBadInput(fmt::format("cluster.per_node is {}; a divisor of the {} devices is expected",
                              cluster.per_node, cluster.devices),
                  job.At("cluster.per_node"));
  }
  CheckDevice(job);
  CheckLevels(job);
}

// ---- Training --------------------------------------------------------------------------------

void CheckTraining(const Job& job) {
  const Training& training = job.training;
  RequirePositive(job, "training.sequence", training.sequence);
  RequirePositive(job, "training.global_batch", training.global_batch);
  if (training.lora) {
    RequirePositive(job, "training.lora.rank", training.lora->rank);
    if (training.lora->targets.empty()) {
      ThrowBadInput("training.lora.targets is empty; name the modules that get adapters",
                    job.At("training.lora"));
    }
  }
  if (job.model.positions > 0 && training.sequence > job.model.positions) {
    ThrowBadInput(fmt::format("training.sequence is {}; the model's learned positions end at {}",
                              training.sequence, job.model.positions),
                  job.At("training.sequence"));
  }
  const FrameworkOptions& options = training.options;
  const bool eight_bit =
      training.precision.compute == DType::kFp8 || training.precision.compute == DType::kFp4;
  if (options.fp8_recipe && !eight_bit) {
    ThrowBadInput(fmt::format("training.options.fp8_recipe is {}; it needs precision.compute fp8 "
                              "or fp4, and that is {}",
                              *options.fp8_recipe, Name(training.precision.compute)),
                  job.At("training.options.fp8_recipe"));
  }
  if (options.softmax_fp32.value_or(false) && training.attention == AttentionKernel::kFlash) {
    ThrowBadInput(
        "training.options.softmax_fp32 is true; it is a switch of unfused attention, and "
        "training.attention is flash",
        job.At("training.options.softmax_fp32"));
  }
}

// ---- Search ----------------------------------------------------------------------------------

// Values a dimension can take: what is stated, else what runs today; empty when anything goes.
std::vector<int> ValuesOf(const Dimension<int>& dimension, const std::optional<int>& current) {
  if (dimension.stated) return dimension.values;
  return current ? std::vector<int>{*current} : std::vector<int>{};
}

struct Degrees {
  std::vector<int> tp, cp, pp, dp, micro_batch;
};

Degrees DegreesOf(const Job& job) {
  const CurrentStrategy current = job.current.value_or(CurrentStrategy{});
  const SearchSpace& s = job.search;
  return {ValuesOf(s.tp, current.tp), ValuesOf(s.cp, current.cp), ValuesOf(s.pp, current.pp),
          ValuesOf(s.dp, current.dp), ValuesOf(s.micro_batch, current.micro_batch)};
}

// Where a search stated its first degree; else the strategy that runs today.
SourcePosition PlaceOfDegrees(const Job& job) {
  const SearchSpace& s = job.search;
  for (const Dimension<int>* d : {&s.dp, &s.pp, &s.tp, &s.cp}) {
    if (d->stated) return d->where;
  }
  return job.At("current");
}

// Sorted distinct products of one value from each list.
std::vector<std::int64_t> Products(const std::vector<const std::vector<int>*>& lists,
                                   std::int64_t largest) {
  std::vector<std::int64_t> products = {1};
  for (const std::vector<int>* list : lists) {
    std::vector<std::int64_t> next;
    for (const std::int64_t product : products) {
      for (const int value : *list) {
        if (product <= largest / value) next.push_back(product * value);
      }
    }
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    products = std::move(next);
  }
  return products;
}

bool Stated(const std::vector<const std::vector<int>*>& lists) {
  return std::none_of(lists.begin(), lists.end(),
                      [](const std::vector<int>* list) { return list->empty(); });
}

std::string Listed(const std::vector<int>& values) {
  std::vector<std::string> words;
  for (const int value : values) words.push_back(std::to_string(value));
  return JoinWords(words, "or");
}

// The data-parallel degrees that stated tp, cp and pp leave of the devices, or those stated.
// Empty when anything goes. Throws when nothing fits the devices.
std::vector<int> DataParallel(const Job& job, const Degrees& d) {
  const int devices = job.cluster.devices;
  const bool grid = Stated({&d.tp, &d.cp, &d.pp});
  const std::vector<std::int64_t> inner =
      grid ? Products({&d.tp, &d.cp, &d.pp}, devices) : std::vector<std::int64_t>{};
  std::vector<int> possible;
  for (const std::int64_t product : inner) {
    if (devices % product == 0) possible.push_back(static_cast<int>(devices / product));
  }
  if (grid && possible.empty()) {
    ThrowBadInput(fmt::format("tp {} x cp {} x pp {} does not divide the {} devices; change one of "
                              "them or cluster.devices",
                              Listed(d.tp), Listed(d.cp), Listed(d.pp), devices),
                  PlaceOfDegrees(job));
  }
  if (d.dp.empty()) return possible;
  std::vector<int> both;
  for (const int dp : d.dp) {
    const bool fits = grid ? std::find(possible.begin(), possible.end(), dp) != possible.end()
                           : devices % dp == 0;
    if (fits) both.push_back(dp);
  }
  if (!both.empty()) return both;
  ThrowBadInput(
      grid
          ? fmt::format("dp is {}; tp {} x cp {} x pp {} leave {} of the {} devices", Listed(d.dp),
                        Listed(d.tp), Listed(d.cp), Listed(d.pp), Listed(possible), devices)
          : fmt::format("dp is {}; a divisor of the {} devices is expected", Listed(d.dp), devices),
      PlaceOfDegrees(job));
}

// The multiple of any of `units` that is nearest to `batch`, the smaller of two.
std::int64_t NearestBatch(const std::vector<std::int64_t>& units, std::int64_t batch) {
  std::int64_t best = units.front();
  for (const std::int64_t unit : units) {
    for (const std::int64_t near :
         {std::max(unit, batch / unit * unit), (batch / unit + 1) * unit}) {
      const std::int64_t distance = std::abs(near - batch);
      const std::int64_t least = std::abs(best - batch);
      if (distance < least || (distance == least && near < best)) best = near;
    }
  }
  return best;
}

void CheckBatch(const Job& job, const Degrees& d, const std::vector<int>& dp) {
  if (dp.empty() && d.micro_batch.empty()) return;
  static const std::vector<int> any = {1};
  const std::vector<int>& replicas = dp.empty() ? any : dp;
  const std::vector<int>& micro = d.micro_batch.empty() ? any : d.micro_batch;
  const std::int64_t batch = job.training.global_batch;
  const std::vector<std::int64_t> units = Products({&replicas, &micro}, std::int64_t{1} << 62);
  for (const std::int64_t unit : units) {
    if (batch % unit == 0) return;
  }
  // An argument came last, so it is what does not go with the file's batch.
  const Dimension<int>& stated = job.search.micro_batch;
  const bool by_argument = stated.stated && stated.where.line == 0 && !stated.where.file.empty();
  const std::string who = dp.empty()
                              ? fmt::format("micro_batch {}", Listed(micro))
                              : fmt::format("dp {} x micro_batch {}", Listed(dp), Listed(micro));
  ThrowBadInput(fmt::format("training.global_batch is {}, which {} cannot divide into "
                            "micro-batches; the nearest batch that works is {}",
                            batch, who, NearestBatch(units, batch)),
                by_argument ? stated.where : job.At("training.global_batch"));
}

void CheckExpertParallel(const Job& job) {
  const Dimension<int>& stated = job.search.ep;
  const CurrentStrategy current = job.current.value_or(CurrentStrategy{});
  const std::vector<int> values = ValuesOf(stated, current.ep);
  if (values.empty() || std::find(values.begin(), values.end(), 1) != values.end()) return;
  std::vector<int> counts;
  for (const LayerKind& kind : job.model.stack.kinds) {
    if (kind.feed_forward.experts) counts.push_back(kind.feed_forward.experts->count);
  }
  const SourcePosition where = stated.stated ? stated.where : job.At("current.ep");
  if (counts.empty()) {
    ThrowBadInput(fmt::format("ep is {}; the model has no experts to spread: ep 1 is expected",
                              Listed(values)),
                  where);
  }
  for (const int ep : values) {
    const bool divides =
        std::all_of(counts.begin(), counts.end(), [ep](int count) { return count % ep == 0; });
    if (divides) return;
  }
  ThrowBadInput(fmt::format("ep is {}; {} experts cannot be placed on it: a divisor of {} is "
                            "expected",
                            Listed(values), counts.front(), counts.front()),
                where);
}

void CheckMargin(const Job& job) {
  const Bytes margin = job.Margin();
  const Bytes memory = job.cluster.device.memory;
  if (margin.value() >= 0 && margin < memory) return;
  ThrowBadInput(fmt::format("search.margin is {}; less than the device's memory of {} is expected",
                            FormatBytes(margin), FormatBytes(memory)),
                job.At("search.margin"));
}

void CheckCurrent(const Job& job) {
  if (!job.current || !job.current->recompute) return;
  const std::size_t layers = job.current->recompute->layers.size();
  const int expected = job.model.stack.layers();
  if (layers == 0 || layers == static_cast<std::size_t>(expected)) return;
  ThrowBadInput(
      fmt::format("current.recompute covers {} layers; the model has {}", layers, expected),
      job.At("current.recompute"));
}

}  // namespace

void Validate(const Job& job) {
  CheckModel(job);
  CheckTraining(job);
  CheckCluster(job);
  CheckMargin(job);
  CheckCurrent(job);
}

void ValidateSearch(const Job& job) {
  CheckExpertParallel(job);
  const Degrees degrees = DegreesOf(job);
  CheckBatch(job, degrees, DataParallel(job, degrees));
}

}  // namespace restow
