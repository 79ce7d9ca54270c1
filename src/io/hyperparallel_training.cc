// What HyperParallel's trainer files and search configurations state alike: batch, precision,
// optimizer, kernels.
#include <fmt/format.h>

#include "io/fields.h"
#include "io/hyperparallel_file.h"
#include "io/training_reader.h"
#include "restow/base/error.h"
#include "restow/base/text.h"

namespace restow::hyperparallel {
namespace {

// HyperParallel's own fallback where neither a data set nor the model states a length.
constexpr int kUsualSequence = 4096;

bool On(const Node* node) { return node != nullptr && node->AsBool(); }

int ReadSequence(File& file, const Model& model, Job& job) {
  const Node* node = file.Find(
      {"dataset.data_transform.max_seq_len", "dataset.data_config.seq_length",
       "dataset.data_config.max_seq_len", "dataset.seq_len", "dataset.seq_length",
       "dataset.max_seq_len", "data.max_seq_len", "data.seq_length", "data_transform.max_seq_len",
       "data_transform.seq_len", "model.seq_len", "model.max_seq_len",
       "model.config_overrides.seq_length", "training.max_seq_len", "train.max_seq_len"});
  if (node != nullptr) {
    job.where["training.sequence"] = node->where;
    return ReadCount(*node, 1 << 28);
  }
  const int length = model.context > 0 ? model.context : kUsualSequence;
  job.notes.push_back(
      {"training.sequence",
       fmt::format("no length stated; {} {}", length,
                   model.context > 0 ? "as the model's context" : "as HyperParallel assumes")});
  return length;
}

// Trained weights keep the dtype the model is built in; under mixed precision they are cast for
// compute. PyTorch's optimizers keep their moments in the dtype of the weights, and FSDP2 its
// gradients, unless fp32_main_params puts fp32 copies beside them.
Precision ReadPrecision(File& file) {
  const Node* mixed = file.Find({"mixed_precision.enabled", "train.mixed_precision.enabled"});
  const Node* param = file.Find({"mixed_precision.param_dtype", "train.mixed_precision.param_dtype",
                                 "fsdp_config.mix_precision.param_dtype"});
  const Node* compute = file.Find({"model.compute_dtype", "model.config_overrides.compute_dtype"});
  const Node* built = file.Find({"model.torch_dtype", "model.param_init_type", "model_init_dtype",
                                 "model.config_overrides.torch_dtype"});
  const Node* main = file.Find({"optimizer.fp32_main_params", "train.optimizer.fp32_main_params"});
  const bool casts = mixed == nullptr ? param != nullptr : mixed->AsBool();
  Precision precision = PrecisionOf(Framework::kHyperParallel, DType::kBf16);
  if (built != nullptr) precision.weights = ReadTorchDType(*built);
  precision.compute = precision.weights;
  if (compute != nullptr) {
    precision.compute = ReadTorchDType(*compute);
  } else if (casts || built == nullptr) {
    precision.compute = param != nullptr ? ReadTorchDType(*param) : DType::kBf16;
  }
  precision.gradients = precision.weights;
  precision.optimizer = precision.weights;
  if (On(main) && precision.weights != DType::kFp32) {
    precision.master = DType::kFp32;
    precision.optimizer = DType::kFp32;
  }
  return precision;
}

Optimizer ReadOptimizer(File& file) {
  const Node* node = file.Find({"optimizer._target_", "optimizer.type", "optimizer.name",
                                "train.optimizer.type", "train.optimizer._target_"});
  if (node == nullptr) return Optimizer::kAdamW;
  const std::string word = WordOf(*node);
  // Longer names first: "adam" stands in "adamw" too.
  for (const Optimizer optimizer : {Optimizer::kMuon, Optimizer::kAdafactor, Optimizer::kAdamW,
                                    Optimizer::kAdam, Optimizer::kSgd}) {
    if (word.find(Name(optimizer)) != std::string::npos) return optimizer;
  }
  ThrowUnsupported(
      fmt::format("{} is {}, which is not available in this version; allowed: {}", node->path,
                  node->Written(), JoinWords(WordsOf<Optimizer>(kOptimizers), "or")),
      node->where);
}

AttentionKernel ReadAttention(File& file) {
  const Node* flash =
      file.Find({"model.use_flash_attention", "model.config_overrides.use_flash_attention"});
  if (flash != nullptr)
    return flash->AsBool() ? AttentionKernel::kFlash : AttentionKernel::kUnfused;
  const Node* name = file.Find({"model.attn_implementation"});
  const bool eager = name != nullptr && WordOf(*name) == "eager";
  return eager ? AttentionKernel::kUnfused : AttentionKernel::kFlash;
}

// A trainer without a loss of its own runs torch's cross entropy over whole logits.
LossKernel ReadLoss(File& file) {
  const Node* node = file.Find({"loss_fn._target_"});
  const std::string word = node == nullptr ? "" : WordOf(*node);
  if (word.find("chunk") != std::string::npos) return LossKernel::kChunked;
  return word.find("fused") != std::string::npos ? LossKernel::kFused : LossKernel::kUnfused;
}

// "model.visual" -> "visual": parts of a model go by their names inside it.
std::vector<std::string> ReadFrozen(File& file) {
  const Node* node = file.Find({"model.freeze_patterns", "model.freeze_modules"});
  if (node == nullptr) return {};
  std::vector<std::string> frozen = ReadTexts(*node);
  for (std::string& name : frozen) {
    if (name.rfind("model.", 0) == 0) name.erase(0, 6);
  }
  return frozen;
}

}  // namespace

void RefuseSwaps(File& file) {
  const auto refuse = [](const Node& node, const char* what) {
    ThrowUnsupported(fmt::format("{} is {}: {} is not available in this version", node.path,
                                 node.Written(), what),
                     node.where);
  };
  const Node* swap = file.Find({"activation_swap", "train.activation_swap"});
  const bool none = swap == nullptr || WordOf(*swap) == "none" || WordOf(*swap) == "off" ||
                    (swap->is_bool() && !swap->AsBool());
  if (!none) refuse(*swap, "swapping activations");
  const Node* inputs = file.Find({"activation_checkpoint.swap_inputs"});
  if (On(inputs)) refuse(*inputs, "swapping activations");
  const Node* experts = file.Find({"ep_host_swap.enabled"});
  if (On(experts)) refuse(*experts, "swapping activations");
  const Node* offload =
      file.Find({"fsdp_config.enable_offload", "train.accelerator.enable_offload"});
  if (On(offload)) refuse(*offload, "offloading weights to the host");
}

Training ReadTraining(File& file, const Model& model, Job& job) {
  restow::Training training;
  training.framework = Framework::kHyperParallel;
  training.sequence = ReadSequence(file, model, job);
  training.precision = ReadPrecision(file);
  training.optimizer = ReadOptimizer(file);
  training.attention = ReadAttention(file);
  training.loss = ReadLoss(file);
  training.frozen = ReadFrozen(file);
  const Node* compile = file.Find({"compile.enabled"});
  if (compile != nullptr) training.options.compile = compile->AsBool();
  const Node* deterministic =
      file.Find({"training.enable_full_determinism", "train.debug.deterministic",
                 "train.enable_full_determinism"});
  if (deterministic != nullptr) training.options.deterministic = deterministic->AsBool();
  const Node* visual = file.Find({"context.visual_seq_len", "model.visual_seq_len"});
  if (visual != nullptr) training.visual_tokens = ReadCount(*visual);
  return training;
}

}  // namespace restow::hyperparallel
