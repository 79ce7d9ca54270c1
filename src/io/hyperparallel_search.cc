// A search configuration: model, cluster, batch, and the degrees to search.
#include <fmt/format.h>

#include <algorithm>

#include "io/dimensions.h"
#include "io/fields.h"
#include "io/hyperparallel_file.h"
#include "io/job_reader.h"
#include "restow/base/error.h"
#include "restow/io/read.h"

namespace restow::hyperparallel {
namespace {

void ReadDegree(File& file, const char* path, const char* name, SearchSpace& space) {
  const Node* node = file.Find({path});
  if (node != nullptr) ReadDimensionInto(name, *node, space);
}

// dp counts replicas and fsdp the devices of a shard: together they are the planner's dp, with
// zero 3 over fsdp devices where fsdp is more than one. The pairs are taken apart, so that a few
// combinations more are searched than were listed.
void ReadDataParallel(File& file, SearchSpace& space) {
  SearchSpace parts;
  ReadDegree(file, "parallelism.dp", "dp", parts);
  const Dimension<int> replicas = parts.dp;
  ReadDegree(file, "parallelism.fsdp", "dp", parts);
  const bool sharded = file.Find({"parallelism.fsdp"}) != nullptr;
  if (!sharded) {
    space.dp = replicas;
    return;
  }
  const Dimension<int> shards = parts.dp;
  space.dp.stated = true;
  space.dp.where = replicas.stated ? replicas.where : shards.where;
  space.dp.automatic = !replicas.stated || replicas.automatic || shards.automatic;
  space.zero.stated = true;
  space.zero.where = shards.where;
  space.zero.automatic = shards.automatic;
  if (shards.automatic) return;
  for (const int shard : shards.values) {
    for (const int replica : replicas.values) {
      const std::int64_t dp = std::int64_t{shard} * replica;
      if (dp <= kLargestDegree) space.dp.values.push_back(static_cast<int>(dp));
    }
    space.zero.values.push_back(shard > 1 ? 3 : 0);
    if (shard > 1) space.zero_span.values.push_back(shard);
  }
  for (std::vector<int>* values : {&space.dp.values, &space.zero.values}) {
    std::sort(values->begin(), values->end());
    values->erase(std::unique(values->begin(), values->end()), values->end());
  }
  if (space.dp.automatic) space.dp.values.clear();
  space.zero_span.stated = !space.zero_span.values.empty();
  space.zero_span.where = shards.where;
}

// The optimizer's shard of a configuration without fsdp.
void ReadOptimizerShard(File& file, SearchSpace& space) {
  const Node* node = file.Find({"model.optimizer_weight_shard_size"});
  if (node == nullptr || space.zero.stated || node->AsInt(-1, kLargestDegree) <= 1) return;
  Node one = *node;
  one.text = "1";
  ReadDimensionInto("zero", one, space);
  ReadDimensionInto("zero_span", *node, space);
}

std::vector<int> Divisors(const std::vector<int>& dp, const std::vector<int>& counts, int batch) {
  std::vector<int> sizes;
  for (const int replicas : dp) {
    for (const int count : counts) {
      const std::int64_t parts = std::int64_t{replicas} * count;
      if (batch % parts == 0) sizes.push_back(static_cast<int>(batch / parts));
    }
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

// A search has micro-batch sizes; HyperParallel lists their numbers. The two say the same where
// global batch = dp * size * number.
void ReadMicroBatch(File& file, Job& job) {
  SearchSpace parts;
  ReadDegree(file, "parallelism.micro_batch_num", "micro_batch", parts);
  const Dimension<int> counts = parts.micro_batch;
  const Node* local = file.Find({"model.local_batch_size"});
  Dimension<int>& size = job.search.micro_batch;
  if (local != nullptr) ReadDimensionInto("micro_batch", *local, job.search);
  if (counts.values.empty() || job.search.dp.values.empty()) return;
  const std::vector<int> sizes =
      Divisors(job.search.dp.values, counts.values, job.training.global_batch);
  const bool agrees =
      local != nullptr && std::find(sizes.begin(), sizes.end(), size.values.front()) != sizes.end();
  if (agrees) return;
  if (sizes.empty()) {
    ThrowBadInput(fmt::format("constraint.global_batch_size is {}, which no listed dp x "
                              "micro_batch_num divides",
                              job.training.global_batch),
                  counts.where);
  }
  if (local != nullptr) {
    job.notes.push_back({"model.local_batch_size",
                         fmt::format("{} sequences do not make the global batch of {} with any "
                                     "listed dp and micro_batch_num; sizes that do are searched",
                                     size.values.front(), job.training.global_batch)});
  }
  size.stated = true;
  size.automatic = false;
  size.where = counts.where;
  size.values = sizes;
}

void ReadPipeline(File& file, SearchSpace& space) {
  const Node* partition = file.Find({"pp_config.stage_partition_mode"});
  if (partition != nullptr && WordOf(*partition) != "uniform" && WordOf(*partition) != "auto") {
    ThrowUnsupported(fmt::format("{} is {}: stages stated by hand are not available in this "
                                 "version; allowed: uniform",
                                 partition->path, partition->Written()),
                     partition->where);
  }
  const Node* chunks = file.Find({"pp_config.pp_interleave_num"});
  if (chunks != nullptr) ReadDimensionInto("vpp", *chunks, space);
  const Node* schedule = file.Find({"pp_config.pipeline_schedule"});
  if (schedule == nullptr) return;
  // One schedule for all: without chunks of its own, `interleaved` is 1f1b.
  space.schedule = {true, false, {ReadPipelineSchedule(*schedule)}, schedule->where};
}

void ReadEtp(File& file, SearchSpace& space) {
  const Node* node = file.Find({"parallelism.etp"});
  // 0 says that none is stated.
  if (node == nullptr || (node->is_integer() && node->AsInteger() == 0)) return;
  ReadDimensionInto("etp", *node, space);
}

void ReadRecompute(File& file, SearchSpace& space) {
  for (const char* path : {"recompute", "parallelism.recompute"}) {
    const Node* node = file.Find({path});
    if (node == nullptr) continue;
    if (WordOf(*node) == "per_layer") {
      ThrowUnsupported(
          fmt::format("{} is per_layer, which is not available in this version; "
                      "allowed: a mode (off, selective, full), a list of them, or auto",
                      path),
          node->where);
    }
    space.recompute = ReadRecomputeDimension(*node, path);
  }
}

// The limit on memory as what is kept free below the device's.
void ReadMemoryLimit(File& file, Job& job) {
  const Node* node = file.Find({"constraint.memory_limit_gb"});
  if (node == nullptr) return;
  const Bytes limit = ReadGib(*node);
  Bytes& memory = job.cluster.device.memory;
  if (limit > memory) {
    RefuseValue(*node, "at most the device's memory (cluster.device_memory_gb) is expected");
  }
  job.search.margin = memory - limit;
  job.where["search.margin"] = node->where;
}

Job ReadBase(File& file, const std::string& base_folder, std::string& read) {
  const Node* path = file.Find({"train_yaml"});
  if (path == nullptr) return {};
  const std::string trainer = ResolvePath(path->AsString(), base_folder);
  const Node document = ReadDocument(trainer);
  read += Canonical(document);
  return ReadTrainer(document, FolderOf(trainer), read);
}

}  // namespace

Job ReadSearchConfig(const Node& document, const std::string& base_folder, std::string& read) {
  File file(document);
  Job job = ReadBase(file, base_folder, read);
  const bool alone = file.Find({"train_yaml"}) == nullptr;
  NotePlaces(document, job.where);
  if (alone || file.Find({"model"}) != nullptr) {
    job.model = ReadModel(file, base_folder, read, job.notes);
  }
  if (alone) job.training = ReadTraining(file, job.model, job);
  const Node* batch = file.Find({"constraint.global_batch_size"});
  if (batch != nullptr) {
    job.training.global_batch = ReadCount(*batch);
    job.where["training.global_batch"] = batch->where;
  } else if (alone) {
    ThrowBadInput("constraint.global_batch_size is missing; state the sequences of a step",
                  document.where);
  }
  if (alone || file.Find({"cluster"}) != nullptr) {
    const ClusterStatement cluster = ReadClusterStatement(file, job.notes);
    if (cluster.devices == 0) {
      ThrowBadInput("cluster.num_nodes and cluster.cards_per_node are missing; state the devices",
                    document.where);
    }
    job.cluster = BuildCluster(cluster, cluster.devices);
  }
  SearchSpace& space = job.search;
  ReadDegree(file, "parallelism.tp", "tp", space);
  ReadDegree(file, "parallelism.pp", "pp", space);
  ReadDegree(file, "parallelism.cp", "cp", space);
  ReadDegree(file, "parallelism.ep", "ep", space);
  ReadDegree(file, "model.use_seq_parallel", "sp", space);
  ReadEtp(file, space);
  ReadDataParallel(file, space);
  ReadOptimizerShard(file, space);
  ReadMicroBatch(file, job);
  ReadPipeline(file, space);
  ReadRecompute(file, space);
  ReadMemoryLimit(file, job);
  if (file.Find({"model.offset"}) != nullptr) {
    job.notes.push_back(
        {"model.offset", "holds for one pp; each pp gets the planner's own stages"});
  }
  const std::vector<FieldNote> unknown = file.Unknown();
  job.unknown.insert(job.unknown.end(), unknown.begin(), unknown.end());
  return job;
}

}  // namespace restow::hyperparallel
