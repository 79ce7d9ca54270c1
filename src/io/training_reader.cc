#include "io/training_reader.h"

#include <fmt/format.h>

#include "io/fields.h"
#include "restow/base/error.h"
#include "restow/base/text.h"

namespace restow {
namespace {

constexpr int kAttentionKernels = 2;
constexpr int kLossKernels = 3;
// Beyond any context anybody trains.
constexpr int kLongestSequence = 1 << 28;

bool KeepsFloatWeights(Framework framework) {
  return framework != Framework::kMegatron && framework != Framework::kMindSpeed &&
         framework != Framework::kDeepSpeed;
}

// A dtype, or none.
std::optional<DType> ReadMaster(const Node& node) {
  if (WordOf(node) == "none") return std::nullopt;
  std::vector<std::string> words = WordsOf<DType>(kDTypes);
  words.emplace_back("none");
  return static_cast<DType>(ReadWord(node, words));
}

Precision ReadPrecision(const Node* node, Framework framework) {
  if (node == nullptr) return PrecisionOf(framework, DType::kBf16);
  if (!node->is_map()) return PrecisionOf(framework, ReadDType(*node));
  Members fields(*node);
  const Node* compute = fields.Take("compute");
  Precision precision =
      PrecisionOf(framework, compute == nullptr ? DType::kBf16 : ReadDType(*compute));
  if (const Node* n = fields.Take("weights")) precision.weights = ReadDType(*n);
  if (const Node* n = fields.Take("gradients")) precision.gradients = ReadDType(*n);
  if (const Node* n = fields.Take("master")) precision.master = ReadMaster(*n);
  if (const Node* n = fields.Take("optimizer")) precision.optimizer = ReadDType(*n);
  fields.RefuseRest();
  return precision;
}

Lora ReadLora(const Node& node) {
  Members fields(node);
  Lora lora;
  lora.rank = ReadCount(fields.Need("rank", "state the rank of the adapters"), 1 << 16);
  const Node& targets = fields.Need("targets", "list the modules that get adapters");
  const std::vector<Node> items = Elements(targets);
  if (items.empty()) RefuseValue(targets, "at least one module is expected");
  for (const Node& item : items)
    lora.targets.push_back(LoraTargets()[ReadWord(item, LoraTargets())]);
  fields.RefuseRest();
  return lora;
}

std::vector<std::string> ReadGlobs(const Node& node) {
  std::vector<std::string> globs = ReadTexts(node);
  for (const std::string& glob : globs) {
    if (Trim(glob).empty()) RefuseValue(node, "a module pattern is expected");
  }
  return globs;
}

}  // namespace

const std::vector<std::string>& LoraTargets() {
  static const std::vector<std::string> targets = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                   "gate_proj", "up_proj", "down_proj"};
  return targets;
}

DType ReadDType(const Node& node) {
  return static_cast<DType>(ReadWord(node, WordsOf<DType>(kDTypes)));
}

Precision PrecisionOf(Framework framework, DType compute) {
  Precision precision;
  precision.compute = compute;
  precision.gradients = DType::kFp32;
  precision.optimizer = DType::kFp32;
  if (compute == DType::kFp32 || KeepsFloatWeights(framework)) {
    precision.weights = DType::kFp32;
    precision.master = std::nullopt;
    return precision;
  }
  // Eight- and four-bit compute keeps 16-bit weights and casts them per product.
  precision.weights = compute == DType::kFp16 ? DType::kFp16 : DType::kBf16;
  precision.master = DType::kFp32;
  return precision;
}

Training ReadTraining(const Node& node) {
  Members fields(node);
  Training training;
  training.sequence =
      ReadCount(fields.Need("sequence", "state the tokens of a sequence"), kLongestSequence);
  training.global_batch = ReadCount(fields.Need("global_batch", "state the sequences of a step"));
  if (const Node* n = fields.Take("framework")) {
    training.framework = static_cast<Framework>(ReadWord(*n, WordsOf<Framework>(kFrameworks)));
  }
  if (const Node* n = fields.Take("release")) training.release = n->AsString();
  training.precision = ReadPrecision(fields.Take("precision"), training.framework);
  if (const Node* n = fields.Take("optimizer")) {
    training.optimizer = static_cast<Optimizer>(ReadWord(*n, WordsOf<Optimizer>(kOptimizers)));
  }
  if (const Node* n = fields.Take("attention")) {
    training.attention =
        static_cast<AttentionKernel>(ReadWord(*n, WordsOf<AttentionKernel>(kAttentionKernels)));
  }
  // Plain PyTorch and HyperParallel run eager cross entropy over whole logits unless they say so.
  const bool eager =
      training.framework == Framework::kTorch || training.framework == Framework::kHyperParallel;
  training.loss = eager ? LossKernel::kUnfused : LossKernel::kFused;
  if (const Node* n = fields.Take("loss")) {
    training.loss = static_cast<LossKernel>(ReadWord(*n, WordsOf<LossKernel>(kLossKernels)));
  }
  if (const Node* n = fields.Take("frozen")) training.frozen = ReadGlobs(*n);
  if (const Node* n = fields.Take("lora")) training.lora = ReadLora(*n);
  if (const Node* n = fields.Take("options")) training.options = ReadFrameworkOptions(*n);
  if (const Node* n = fields.Take("visual_tokens")) training.visual_tokens = ReadCount(*n);
  fields.RefuseRest();
  return training;
}

}  // namespace restow
