// A trainer YAML of either schema: what runs today, as a job.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "io/dimensions.h"
#include "io/fields.h"
#include "io/hyperparallel_file.h"
#include "io/job_reader.h"
#include "restow/base/error.h"
#include "restow/base/text.h"

namespace restow::hyperparallel {
namespace {

struct Degrees {
  std::int64_t tp = 1, cp = 1, pp = 1, ep = 1;
  const Node* vpp = nullptr;
  const Node* etp = nullptr;
  // Data parallelism as factors of dp (`accelerator.dp_shard`, `dp_replicate`), or as the span of
  // a shard over dp * cp (`fsdp_config.dp_shard_size`). 0: not stated; -1: whatever is left.
  std::int64_t shard = 0, replicate = 1, span = 0, expert_shard = 1;
  SourcePosition where;
};

// A shard degree, where -1 stands for what is left.
std::int64_t ReadShard(const Node* node) {
  if (node == nullptr) return 0;
  const std::int64_t value = node->AsInteger();
  if (value == -1) return -1;
  return ReadCount(*node, kLargestDegree);
}

Degrees ReadDegrees(File& file, Job& job) {
  Degrees d;
  const auto degree = [&](const char* name, std::initializer_list<std::string_view> keys) {
    const Node* node = file.Accelerator(keys);
    if (node != nullptr) job.where[fmt::format("current.{}", name)] = node->where;
    return node == nullptr ? std::int64_t{1} : std::int64_t{ReadCount(*node, kLargestDegree)};
  };
  d.tp = degree("tp", {"tp_size", "tp_degree", "tp", "tensor_parallel_degree"});
  d.cp = degree("cp", {"cp_size", "cp", "context_parallel_degree", "cp_degree"});
  d.pp = degree("pp", {"pp_size", "pp", "pipeline_parallel_degree", "pp_degree"});
  d.ep = degree("ep", {"ep_size", "ep", "expert_parallel_degree", "ep_degree"});
  d.replicate = degree("dp", {"dp_replicate", "dp_replicate_size"});
  d.etp = file.Accelerator({"expert_tensor_parallel_degree", "etp_size", "etp"});
  d.vpp = file.Accelerator({"pp_vpp", "pp_interleave_num", "vpp"});
  d.shard = ReadShard(file.Accelerator({"dp_shard", "dp_shard_size"}));
  d.span = ReadShard(file.Find({"fsdp_config.dp_shard_size", "train.fsdp_config.dp_shard_size"}));
  d.expert_shard = Count(file.Find({"fsdp_config.edp_shard_size"}), 1);
  const Node* section = file.Find({"accelerator", "train.accelerator"});
  d.where = section == nullptr ? file.root().where : section->where;
  return d;
}

// The smallest data-parallel extent (dp * cp) that the stated groups fill: the shard, the context
// group, and the experts' groups, which spread over tp too.
std::int64_t SmallestExtent(const Degrees& d) {
  const std::int64_t experts = d.ep * d.expert_shard;
  return std::lcm(std::lcm(std::max<std::int64_t>(d.span, 1), d.cp),
                  experts / std::gcd(experts, d.tp));
}

// Devices where the file does not count them. 0: it cannot be told.
std::int64_t DevicesOf(const Degrees& d) {
  if (d.shard > 0) return d.shard * d.replicate * d.tp * d.cp * d.pp;
  if (d.span > 0 && d.shard == 0) return SmallestExtent(d) * d.replicate * d.tp * d.pp;
  return 0;
}

int SettleDevices(const ClusterStatement& cluster, const Degrees& d, Job& job) {
  if (cluster.devices > 0) return cluster.devices;
  const std::int64_t devices = DevicesOf(d);
  if (devices == 0) {
    ThrowBadInput(
        "the number of devices is not stated and dp_shard leaves it open; add "
        "`cluster: {device: ascend-910b, devices: N}` to the file",
        d.where);
  }
  if (devices > kLargestDegree) {
    ThrowBadInput(fmt::format("the degrees multiply to {} devices; at most {} are planned for",
                              devices, kLargestDegree),
                  d.where);
  }
  job.notes.push_back({"cluster.devices",
                       fmt::format("not stated; {} as the least that the degrees fill", devices)});
  return static_cast<int>(devices);
}

// Sharding of weights (zero 2 and 3) or of the optimizer alone (zero 1), and over how many.
void SetSharding(File& file, const Degrees& d, int dp, CurrentStrategy& current) {
  const std::int64_t extent = dp * d.cp;
  std::int64_t span = d.span != 0 ? d.span : d.shard;
  if (span == -1) span = extent / d.replicate;
  const Node* gathered =
      file.Find({"fsdp_config.reshard_after_forward", "train.accelerator.reshard_after_forward",
                 "accelerator.reshard_after_forward"});
  const Node* optimizer = file.Accelerator({"optimizer_weight_shard_size"});
  if (span > 1) {
    current.zero = gathered != nullptr && !gathered->AsBool() ? 2 : 3;
  } else if (optimizer != nullptr && optimizer->AsInt(-1, kLargestDegree) > 1) {
    span = optimizer->AsInteger();
    current.zero = 1;
  } else {
    current.zero = 0;
  }
  if (span > 1 && span < extent) current.zero_span = static_cast<int>(span);
}

void SetPipeline(File& file, const Degrees& d, CurrentStrategy& current) {
  const Node* schedule =
      file.Accelerator({"pp_schedule", "pipeline_scheduler", "pipeline_parallel_schedule"});
  current.vpp = Count(d.vpp, 1);
  if (d.pp > 1 && schedule != nullptr) current.schedule = ReadPipelineSchedule(*schedule);
  if (*current.vpp > 1 && current.schedule.value_or(Schedule::k1F1B) == Schedule::k1F1B) {
    current.schedule = Schedule::kInterleaved;
  }
}

void SetContext(File& file, const Degrees& d, CurrentStrategy& current) {
  const Node* algorithm =
      file.Find({"dataloader.get_batch.cp_algorithm", "accelerator.context_parallel_algo",
                 "train.accelerator.context_parallel_algo"});
  if (d.cp == 1 || algorithm == nullptr) return;
  const std::string word = WordOf(*algorithm);
  if (word.find("hybrid") != std::string::npos) {
    ThrowUnsupported(fmt::format("{} is {}, which is not available in this version; allowed: "
                                 "ulysses or ring",
                                 algorithm->path, algorithm->Written()),
                     algorithm->where);
  }
  current.cp_kind = word.find("ulysses") != std::string::npos ? CpKind::kAllToAll : CpKind::kRing;
}

CurrentStrategy ReadStrategy(File& file, const Degrees& d, int devices, Job& job) {
  const std::int64_t inner = d.tp * d.cp * d.pp;
  if (devices % inner != 0) {
    ThrowBadInput(fmt::format("tp {} x cp {} x pp {} does not divide the {} devices", d.tp, d.cp,
                              d.pp, devices),
                  d.where);
  }
  CurrentStrategy current;
  current.where = d.where;
  current.tp = static_cast<int>(d.tp);
  current.cp = static_cast<int>(d.cp);
  current.pp = static_cast<int>(d.pp);
  current.ep = static_cast<int>(d.ep);
  const std::int64_t dp = d.shard > 0 ? d.shard * d.replicate : devices / inner;
  current.dp = static_cast<int>(dp);
  // HyperParallel's etp of 0 says that none is stated.
  if (d.etp != nullptr && d.etp->AsInt(0, kLargestDegree) > 0) {
    current.etp = d.etp->AsInt(1, kLargestDegree);
  }
  const Node* sp = file.Accelerator({"sequence_parallel", "use_seq_parallel"});
  if (sp != nullptr) current.sp = sp->AsBool();
  SetSharding(file, d, *current.dp, current);
  SetPipeline(file, d, current);
  SetContext(file, d, current);
  const Node* micro = file.Training({"micro_batch_size", "local_batch_size"});
  current.micro_batch = Count(micro, 1);
  if (micro != nullptr) job.where["current.micro_batch"] = micro->where;
  current.recompute = ReadCurrentRecompute(file, job.model.stack.layers(), static_cast<int>(d.pp));
  job.where["current"] = d.where;
  return current;
}

int ReadGlobalBatch(File& file, const CurrentStrategy& current, Job& job) {
  const Node* batch = file.Training({"global_batch_size"});
  const Node* counts =
      file.Find({"training.micro_batch_num", "train.micro_batch_num",
                 "accelerator.pp_micro_batch_num", "train.accelerator.pp_micro_batch_num"});
  const std::int64_t replicas = std::int64_t{*current.dp} * *current.micro_batch;
  if (batch == nullptr && counts != nullptr) {
    const std::int64_t product = replicas * ReadCount(*counts, 1 << 20);
    if (product > (1 << 30)) RefuseValue(*counts, "the batch it makes is too large");
    return static_cast<int>(product);
  }
  if (batch == nullptr) {
    ThrowBadInput("training.global_batch_size is missing; state the sequences of a step",
                  file.root().where);
  }
  job.where["training.global_batch"] = batch->where;
  const int stated = ReadCount(*batch);
  if (counts != nullptr && replicas * ReadCount(*counts, 1 << 20) != stated) {
    job.notes.push_back(
        {counts->path, fmt::format("{} micro-batches do not make the global batch of {} over dp "
                                   "{} x micro_batch {}; their number follows from the batch",
                                   counts->text, stated, *current.dp, *current.micro_batch)});
  }
  return stated;
}

}  // namespace

Schedule ReadPipelineSchedule(const Node& node) {
  std::string word = WordOf(node);
  std::replace(word.begin(), word.end(), '_', '-');
  if (word == "1f1b") return Schedule::k1F1B;
  if (word == "gpipe") return Schedule::kGpipe;
  for (const char* name :
       {"interleaved", "interleaved1f1b", "interleaved-1f1b", "1f1b-interleaved"}) {
    if (word == name) return Schedule::kInterleaved;
  }
  ThrowUnsupported(fmt::format("{} is {}, which is not available in this version; allowed: gpipe, "
                               "1f1b or interleaved",
                               node.path, node.Written()),
                   node.where);
}

Job ReadTrainer(const Node& document, const std::string& base_folder, std::string& read) {
  File file(document);
  Job job;
  NotePlaces(document, job.where);
  ReadRecomputeMode(file);  // a mode misspelt is reported before anything that follows from it
  RefuseSwaps(file);
  job.model = ReadModel(file, base_folder, read, job.notes);
  job.training = ReadTraining(file, job.model, job);
  const Degrees degrees = ReadDegrees(file, job);
  const ClusterStatement cluster = ReadClusterStatement(file, job.notes);
  const int devices = SettleDevices(cluster, degrees, job);
  job.cluster = BuildCluster(cluster, devices);
  job.current = ReadStrategy(file, degrees, devices, job);
  job.training.global_batch = ReadGlobalBatch(file, *job.current, job);
  job.training.options.chunk_layers = ReadStageLayers(
      file, job.model.stack.layers(), *job.current->pp * *job.current->vpp, job.notes);
  if (const Node* dimension = file.Find({"context.recompute"})) {
    ReadDimensionInto("recompute", *dimension, job.search);
  }
  if (const Node* search = file.Find({"search"})) job.search = ReadSearch(*search);
  job.unknown = file.Unknown();
  return job;
}

}  // namespace restow::hyperparallel
