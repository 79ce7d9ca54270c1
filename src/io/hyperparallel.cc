// Which of HyperParallel's files a document is, and who reads it.
#include "io/hyperparallel.h"

#include <algorithm>
#include <string>
#include <vector>

#include "io/hyperparallel_file.h"
#include "restow/base/error.h"
#include "restow/base/text.h"
#include "restow/io/read.h"

namespace restow {
namespace {

bool HasAny(const Node& document, const std::vector<std::string>& keys) {
  return std::any_of(keys.begin(), keys.end(),
                     [&](const std::string& key) { return document.Find(key) != nullptr; });
}

// Files of the same tools that state no training job, told by their keys.
struct OtherFile {
  std::vector<std::string> keys;
  const char* reason;
};

const std::vector<OtherFile>& OtherFiles() {
  static const std::vector<OtherFile> files = {
      {{"runner_config", "parallel_config", "moe_config", "runner_wrapper"},
       "this is a MindFormers training file; reading it is not available in this version"},
      {{"layers_description", "pre_defined_layer", "auto_partition_layer"},
       "this is a layer file of HyperParallel's pipeline balancer (sapp_ppb), not a training job"},
      {{"pipeline_config", "memory_usage", "time_config"},
       "this is an input of HyperParallel's pipeline balancer (sapp_ppb): it states layers' times "
       "and memory, not a training job"},
      {{"mindformers_dir", "toml_path", "torchtitan_path", "npus_per_node", "dryrun_lim",
        "layer_ratio"},
       "this is an argument file of HyperParallel's fast tuner, not a training job"},
  };
  return files;
}

const OtherFile* FindOther(const Node& document) {
  for (const OtherFile& other : OtherFiles()) {
    if (HasAny(document, other.keys)) return &other;
  }
  return nullptr;
}

bool IsSearchConfig(const Node& document) {
  return HasAny(document, {"parallelism", "constraint", "train_yaml", "pp_config"});
}

bool IsTrainer(const Node& document) {
  return HasAny(document,
                {"accelerator", "fsdp_config", "activation_checkpoint", "train", "mixed_precision",
                 "plan_overrides", "gradient_checkpointing", "step_scheduler", "activation_swap"});
}

}  // namespace

bool IsHyperParallel(const Node& document) {
  return document.is_map() &&
         (IsSearchConfig(document) || IsTrainer(document) || FindOther(document) != nullptr);
}

Job ReadHyperParallel(const Node& document, const std::string& base_folder, std::string& read) {
  if (const OtherFile* other = FindOther(document)) ThrowUnsupported(other->reason, document.where);
  return IsSearchConfig(document) ? hyperparallel::ReadSearchConfig(document, base_folder, read)
                                  : hyperparallel::ReadTrainer(document, base_folder, read);
}

Model ReadHyperParallelModel(const Node& document, const std::string& base_folder) {
  if (const OtherFile* other = FindOther(document)) ThrowUnsupported(other->reason, document.where);
  hyperparallel::File file(document);
  std::string read;
  std::vector<FieldNote> notes;
  Model model = hyperparallel::ReadModel(file, base_folder, read, notes);
  model.ignored.insert(model.ignored.end(), notes.begin(), notes.end());
  return model;
}

}  // namespace restow
