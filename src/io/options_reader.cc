// `training.options`: one line per switch of FrameworkOptions, under the names of the `switches`
// column of measured runs.
#include <fmt/format.h>

#include "io/fields.h"
#include "io/training_reader.h"
#include "restow/base/error.h"

namespace restow {
namespace {

using Options = FrameworkOptions;

struct Switch {
  const char* name;
  std::optional<bool> Options::*field;
};
struct Choice {
  const char* name;
  std::optional<std::string> Options::*field;
  std::vector<std::string> words;  // empty: any text
};
struct Number {
  const char* name;
  std::optional<double> Options::*field;
  double low;
  double high;
};

const std::vector<Switch>& Switches() {
  static const std::vector<Switch> switches = {
      {"wgrad_fusion", &Options::wgrad_fusion},
      {"softmax_fp32", &Options::softmax_fp32},
      {"deterministic", &Options::deterministic},
      {"flash_attention_bshd", &Options::flash_attention_bshd},
      {"moe_grouped", &Options::moe_grouped},
      {"moe_pad", &Options::moe_pad},
      {"ep_overlap", &Options::ep_overlap},
      {"tp_overlap", &Options::tp_overlap},
      {"async_tp", &Options::async_tp},
      {"compile", &Options::compile},
      {"embedding_and_loss_count_as_layers", &Options::embedding_and_loss_count_as_layers},
      {"reuse_fp32_params", &Options::reuse_fp32_params},
      {"optimizer_swapped", &Options::optimizer_swapped},
      {"attention_offloaded", &Options::attention_offloaded},
      {"read_after_first_iteration", &Options::read_after_first_iteration},
  };
  return switches;
}

const std::vector<Choice>& Choices() {
  static const std::vector<Choice> choices = {
      {"te", &Options::te, {}},
      {"loss", &Options::loss, {"te-fused", "native-fused", "unfused"}},
      {"fp8_recipe", &Options::fp8_recipe, {"delayed", "current-scaling", "mx", "rowwise"}},
      {"moe_launch", &Options::moe_launch, {"eager", "partial", "full"}},
      {"dispatcher", &Options::dispatcher, {"all-to-all", "deep-ep"}},
      {"placement", &Options::placement, {"numa-tuned"}},
      {"grad_accumulate", &Options::grad_accumulate, {"fp32-separate-kernel"}},
      {"activation", &Options::activation, {"clamped-swiglu-bias"}},
  };
  return choices;
}

const std::vector<Number>& Numbers() {
  static const std::vector<Number> numbers = {
      {"grad_bytes", &Options::grad_bytes, 0, 64},
      {"optimizer_bytes", &Options::optimizer_bytes, 0, 64},
      {"dropout", &Options::dropout, 0, 1},
      {"moe_imbalance", &Options::moe_imbalance, 1, 1e6},
  };
  return numbers;
}

// Megatron-LM's names for what selective recompute reruns (--recompute-modules), and MindSpeed's
// --recompute-activation-function.
const std::vector<std::string>& RecomputeModules() {
  static const std::vector<std::string> modules = {
      "core_attn", "layernorm", "moe_act",        "mla_up_proj",
      "mlp",       "moe",       "shared_experts", "activation-function"};
  return modules;
}

double ReadNumber(const Node& node, double low, double high) {
  const double value = node.AsNumber();
  if (value < low || value > high) {
    RefuseValue(node, fmt::format("a number from {} to {} is expected", low, high));
  }
  return value;
}

// [7, 7], or "7/7" as the measured runs write it. A stage may hold no layer.
std::vector<int> ReadLayerCounts(const Node& node) {
  std::vector<int> counts;
  if (node.is_list()) {
    for (const Node& item : node.items) counts.push_back(item.AsInt(0, 1 << 20));
    return counts;
  }
  Node part = node;
  std::string_view rest = node.AsString();
  while (true) {
    const std::size_t slash = rest.find('/');
    part.text = rest.substr(0, slash);
    part.quoted = false;
    counts.push_back(part.AsInt(0, 1 << 20));
    if (slash == std::string_view::npos) return counts;
    rest.remove_prefix(slash + 1);
  }
}

}  // namespace

FrameworkOptions ReadFrameworkOptions(const Node& node) {
  Members fields(node);
  FrameworkOptions options;
  for (const Switch& s : Switches()) {
    if (const Node* n = fields.Take(s.name)) options.*s.field = ReadSwitch(*n);
  }
  for (const Choice& c : Choices()) {
    const Node* n = fields.Take(c.name);
    if (n == nullptr) continue;
    options.*c.field = c.words.empty() ? n->AsString() : c.words[ReadWord(*n, c.words)];
  }
  for (const Number& number : Numbers()) {
    const Node* n = fields.Take(number.name);
    if (n != nullptr) options.*number.field = ReadNumber(*n, number.low, number.high);
  }
  if (const Node* n = fields.Take("vocabulary_unit")) options.vocabulary_unit = ReadCount(*n);
  if (const Node* n = fields.Take("interleave_group")) options.interleave_group = ReadCount(*n);
  if (const Node* n = fields.Take("deferred_embedding_wgrad")) {
    options.deferred_embedding_wgrad = n->AsInt(0, 1 << 20);
  }
  if (const Node* n = fields.Take("chunk_layers")) options.chunk_layers = ReadLayerCounts(*n);
  if (const Node* n = fields.Take("first_last_layers")) {
    options.first_last_layers = ReadLayerCounts(*n);
    if (options.first_last_layers.size() != 2) {
      RefuseValue(*n, "two counts are expected: of the first and of the last stage");
    }
  }
  if (const Node* n = fields.Take("recompute_modules")) {
    for (const Node& item : Elements(*n)) {
      options.recompute_modules.push_back(RecomputeModules()[ReadWord(item, RecomputeModules())]);
    }
  }
  fields.RefuseRest();
  return options;
}

}  // namespace restow
