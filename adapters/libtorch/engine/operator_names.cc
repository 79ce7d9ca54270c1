#include "engine/operator_names.h"

#include <map>
#include <string_view>
#include <vector>

#include "restow/base/error.h"

namespace restow::libtorch {
namespace {

using Set = std::vector<const char*>;

const std::map<std::string_view, Set>& Sets() {
  static const auto* const sets = new std::map<std::string_view, Set>{
      {"attention",
       {"aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention",
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "aten::_scaled_dot_product_efficient_attention",
        "aten::_scaled_dot_product_cudnn_attention",
        "aten::_scaled_dot_product_fused_attention_overrideable", "aten::_flash_attention_forward",
        "aten::_efficient_attention_forward"}},
      {"matmul",
       {"aten::linear", "aten::matmul", "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm",
        "aten::_scaled_mm", "aten::_grouped_mm"}},
      {"norm",
       {"aten::layer_norm", "aten::native_layer_norm", "aten::rms_norm", "aten::_fused_rms_norm",
        "aten::group_norm", "aten::native_group_norm", "aten::batch_norm",
        "aten::native_batch_norm"}},
      {"communication",
       {"_c10d_functional::all_gather_into_tensor", "_c10d_functional::all_reduce",
        "_c10d_functional::all_to_all_single", "_c10d_functional::reduce_scatter_tensor",
        "_c10d_functional::wait_tensor"}},
  };
  return *sets;
}

constexpr std::string_view kEverySecond = "every second matmul";

[[noreturn]] void Refuse(const std::string& name) {
  std::string sets;
  for (const auto& [set, operators] : Sets()) sets += std::string(set) + ", ";
  ThrowBadInput("'" + name + "' is no operator ('aten::mm') and no named set (" + sets +
                std::string(kEverySecond) + ")");
}

}  // namespace

void AddOperators(OperatorNames& names, const std::string& name, OperatorChoice choice) {
  if (name.find("::") != std::string::npos) {
    names[name] = {choice, false};
    return;
  }
  const bool every_second = name == kEverySecond;
  if (every_second && choice == OperatorChoice::kRecompute) {
    ThrowBadInput("'" + name + "' can be saved or swapped; the others are recomputed");
  }
  const auto found = Sets().find(every_second ? "matmul" : std::string_view(name));
  if (found == Sets().end()) Refuse(name);
  for (const char* const one : found->second) names[one] = {choice, every_second};
}

}  // namespace restow::libtorch
