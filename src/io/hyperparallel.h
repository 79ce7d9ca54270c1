// HyperParallel's own files (trainer YAML of either schema, search configurations) as jobs.
//
// What a file leaves open is settled so, and each settlement is listed in Job::notes:
//   device   ascend-910b (A2) where neither `cluster` nor `context` names one.
//   devices  context.device_num, else what cluster states, else the smallest grid that the stated
//            degrees fill: tp * pp * lcm(dp_shard_size, cp, ep * edp_shard_size / gcd(.., tp)).
//            dp_shard_size of `fsdp_config` spans dp * cp; `dp_shard` and `dp_replicate` of
//            `accelerator` are factors of dp.
//   sequence the model's context where no dataset states a length, else 4096.
// A sharded group of more than one device is zero 3, or 2 under reshard_after_forward: false;
// optimizer_weight_shard_size above one is zero 1; zero_span is stated where it is less than dp *
// cp. Memory figures ("54GB", device_memory_gb) count in GiB, as HyperParallel does.
#pragma once

#include <string>

#include "restow/io/document.h"
#include "restow/schema/job.h"

namespace restow {

// `read` grows by the bytes of every further file. The result has not passed Validate.
// Errors: kBadInput with position; kUnsupported naming what is not available.
Job ReadHyperParallel(const Node& document, const std::string& base_folder, std::string& read);

Model ReadHyperParallelModel(const Node& document, const std::string& base_folder);

}  // namespace restow
