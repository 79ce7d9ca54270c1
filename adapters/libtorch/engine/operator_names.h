// Operators by name, and the names that stand for sets of them: an operator's form differs by front
// end, shape and device.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

namespace restow::libtorch {

enum class OperatorChoice : std::uint8_t { kRecompute, kSave, kSwap };

struct NamedChoice {
  OperatorChoice choice = OperatorChoice::kRecompute;
  // Of all that are named so, every second one, the first included; the others are run again.
  bool every_second = false;
};

// "aten::mm" is every overload, "aten::add.Tensor" one.
using OperatorNames = std::unordered_map<std::string, NamedChoice>;

// `name`: of an operator; of a set ("attention", "matmul", "norm", "communication"); or "every
// second matmul". What was added before under the same operator is replaced. Errors: kBadInput for
// a name that is neither.
void AddOperators(OperatorNames& names, const std::string& name, OperatorChoice choice);

}  // namespace restow::libtorch
