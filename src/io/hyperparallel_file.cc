#include "io/hyperparallel_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "io/fields.h"
#include "restow/base/error.h"
#include "restow/base/text.h"
#include "restow/base/units.h"

namespace restow::hyperparallel {
namespace {

// Sections and keys that decide neither memory nor time as they are priced here. A section covers
// everything below it.
const std::set<std::string>& Irrelevant() {
  static const std::set<std::string> paths = {"data",
                                              "dataset",
                                              "dataloader",
                                              "data_transform",
                                              "collate_fn",
                                              "tokenizer",
                                              "lr_scheduler",
                                              "checkpoint",
                                              "logging",
                                              "debug",
                                              "profiling",
                                              "dry_run",
                                              "plan_overrides",
                                              "codegen",
                                              "modeling_backend",
                                              "ep_instrument",
                                              "ep_host_swap",
                                              "loss",
                                              "loss_fn",
                                              "optimizer",
                                              "compile",
                                              "seed",
                                              "output_dir",
                                              "tokenizer_path",
                                              "processor",
                                              "callbacks",
                                              "wandb",
                                              "mixed_precision",
                                              "train.optimizer",
                                              "train.mixed_precision",
                                              "train.checkpoint",
                                              "train.logging",
                                              "train.debug",
                                              "train.lr_scheduler",
                                              "train.profiling",
                                              "train.data",
                                              "step_scheduler",
                                              "pp_config",
                                              "source",
                                              "name",
                                              "description"};
  return paths;
}

// Keys of sections that are read otherwise, by their last word.
const std::set<std::string>& IrrelevantKeys() {
  static const std::set<std::string> keys = {"_target_",
                                             "train_iters",
                                             "train_samples",
                                             "eval_iters",
                                             "max_steps",
                                             "num_train_epochs",
                                             "seed",
                                             "backend",
                                             "init_device",
                                             "loss_aggregation",
                                             "max_grad_norm",
                                             "empty_cache_steps",
                                             "logging_steps",
                                             "train_url",
                                             "comm_fusion",
                                             "comm_fusion_zero_copy",
                                             "requires_grad_sync",
                                             "defer_fsdp_grad_sync",
                                             "enable_fsdp2_prefetch",
                                             "forward_prefetch_depth",
                                             "backward_prefetch_depth",
                                             "fsdp_forward_prefetch",
                                             "fsdp_backward_prefetch",
                                             "replicate_params",
                                             "loss_parallel",
                                             "enable_compile",
                                             "trust_remote_code",
                                             "local_files_only",
                                             "force_hf",
                                             "ignore_mismatched_sizes",
                                             "load_base_model",
                                             "validate_placement",
                                             "allow_uncovered_params",
                                             "experts_implementation",
                                             "tokenizer_path",
                                             "cache_dir",
                                             "revision",
                                             "subfolder",
                                             "token",
                                             "vl",
                                             "softmax_compute_type",
                                             "recompute_slice_activation",
                                             "gradient_accumulation_shard",
                                             "reshard_after_backward",
                                             "enable_async_tensor_parallel",
                                             "pp_less_memory",
                                             "capacity_factor",
                                             "use_gmm",
                                             "gmm",
                                             "intra_node_bandwidth_gbps",
                                             "inter_node_bandwidth_gbps",
                                             "expert_shard",
                                             "mix_precision",
                                             "enable_parallel_optimizer",
                                             "moe_enabled",
                                             "multiple_of",
                                             "ffn_dim_multiplier"};
  return keys;
}

const Node* Walk(const Node& root, std::string_view path) {
  const Node* node = &root;
  while (true) {
    if (!node->is_map()) return nullptr;
    const std::size_t dot = path.find('.');
    node = node->Find(path.substr(0, dot));
    if (node == nullptr || node->is_null()) return nullptr;
    if (dot == std::string_view::npos) return node;
    path.remove_prefix(dot + 1);
  }
}

std::vector<std::string> Under(std::initializer_list<const char*> sections,
                               std::initializer_list<std::string_view> keys) {
  std::vector<std::string> paths;
  for (const char* section : sections) {
    for (const std::string_view key : keys) paths.push_back(fmt::format("{}.{}", section, key));
  }
  return paths;
}

}  // namespace

const Node* File::Find(const std::vector<std::string>& paths) {
  const Node* first = nullptr;
  for (const std::string& path : paths) {
    used_.insert(path);
    const Node* found = Walk(root_, path);
    if (found == nullptr) continue;
    if (first == nullptr) {
      first = found;
    } else if (first->is_scalar() && found->is_scalar() && WordOf(*first) != WordOf(*found)) {
      RefuseValue(*found, fmt::format("{} says {}; one of the two is expected", first->path,
                                      first->Written()));
    }
  }
  return first;
}

const Node* File::Accelerator(std::initializer_list<std::string_view> keys) {
  return Find(Under({"accelerator", "train.accelerator", "training.accelerator"}, keys));
}

const Node* File::Training(std::initializer_list<std::string_view> keys) {
  return Find(Under({"training", "train", "step_scheduler"}, keys));
}

bool File::Settled(const std::string& path) const {
  if (used_.count(path) != 0 || Irrelevant().count(path) != 0) return true;
  const std::size_t dot = path.rfind('.');
  return dot != std::string::npos && IrrelevantKeys().count(path.substr(dot + 1)) != 0;
}

bool File::HoldsSettled(const std::string& path) const {
  const std::string prefix = path + ".";
  const auto below = [&prefix](const std::set<std::string>& paths) {
    const auto at = paths.lower_bound(prefix);
    return at != paths.end() && at->compare(0, prefix.size(), prefix) == 0;
  };
  return below(used_) || below(Irrelevant());
}

void File::Collect(const Node& map, std::vector<FieldNote>& unknown) const {
  for (const auto& [key, value] : map.members) {
    const std::string& path = value.path;
    if (value.is_map() && HoldsSettled(path) && Irrelevant().count(path) == 0) {
      Collect(value, unknown);
    } else if (!Settled(path)) {
      unknown.push_back({path, "not known to the HyperParallel reader; not priced"});
    }
  }
}

std::vector<FieldNote> File::Unknown() const {
  std::vector<FieldNote> unknown;
  Collect(root_, unknown);
  return unknown;
}

int Count(const Node* node, int fallback) { return node == nullptr ? fallback : ReadCount(*node); }

DType ReadTorchDType(const Node& node) {
  static const std::vector<std::string> words = {"float32", "bfloat16", "float16",
                                                 "fp32",    "bf16",     "fp16"};
  static const std::vector<DType> dtypes = {DType::kFp32, DType::kBf16, DType::kFp16,
                                            DType::kFp32, DType::kBf16, DType::kFp16};
  Node bare = node;
  if (bare.text.rfind("torch.", 0) == 0) bare.text.erase(0, 6);
  return dtypes[ReadWord(bare, words)];
}

Bytes ReadGib(const Node& node) {
  std::string text(Trim(node.AsString()));
  const std::string lower = Lower(text);
  const bool gigabytes = lower.size() > 2 && lower.substr(lower.size() - 2) == "gb";
  const bool bare = !node.quoted && node.is_number();
  if (!gigabytes && !bare) return ReadSize(node);
  Node sized = node;
  sized.text = (gigabytes ? text.substr(0, text.size() - 2) : text) + " GiB";
  return ReadSize(sized);
}

}  // namespace restow::hyperparallel
