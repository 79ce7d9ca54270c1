// Selective recompute for C++ programs: gradients of a checkpointed function under lists of
// operator names, named sets and a policy, against those of the function itself; no Python in the
// process.
//
//   selective_program FOLDER      a folder for the file tier
//
// Prints a line for each case. Exit 1 when one fails.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "restow/base/error.h"
#include "restow/libtorch.h"

namespace {

namespace libtorch = restow::libtorch;
using libtorch::OperatorAnswer;
using libtorch::OperatorOptions;
using libtorch::Tensors;

int twice_ran = 0;

at::Tensor Twice(const at::Tensor& x) {
  ++twice_ran;
  return x * 2;
}

TORCH_LIBRARY(restow_test, m) {
  m.def("twice(Tensor x) -> Tensor");
  m.impl("twice", c10::DispatchKey::CompositeExplicitAutograd, &Twice);
}

at::Tensor CallTwice(const at::Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("restow_test::twice", "")
                             .typed<at::Tensor(const at::Tensor&)>();
  return op.call(x);
}

Tensors Function(const Tensors& in) {
  const at::Tensor hidden = at::gelu(at::mm(in[0], in[1]));
  const at::Tensor dropped = at::dropout(hidden, 0.25, true);
  return {at::tanh(at::mm(dropped * CallTwice(hidden.detach()), in[2]))};
}

template <typename Run>
Tensors Gradients(const Run& run) {
  at::manual_seed(1);
  Tensors in;
  for (const auto& sizes : {std::vector<std::int64_t>{6, 8}, {8, 16}, {16, 8}}) {
    in.push_back(at::randn(sizes).requires_grad_());
  }
  run(in)[0].square().sum().backward();
  Tensors gradients;
  for (const at::Tensor& one : in) gradients.push_back(one.grad());
  gradients.push_back(at::rand({4}));
  return gradients;
}

bool Same(const Tensors& a, const Tensors& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!at::equal(a[i], b[i])) return false;
  }
  return a.size() == b.size();
}

struct Outcome {
  bool same = false;
  int twice_ran = 0;
  std::int64_t moved = 0;
};

Outcome Try(const OperatorOptions& operators) {
  const Tensors wanted = Gradients(&Function);
  twice_ran = 0;
  libtorch::ResetStats();
  libtorch::CheckpointOptions options;
  options.operators = operators;
  const Tensors actual =
      Gradients([&](const Tensors& in) { return libtorch::Checkpoint(&Function, in, options); });
  return {Same(wanted, actual), twice_ran, libtorch::CurrentStats().bytes_out};
}

int failures = 0;

void Check(const char* what, bool good) {
  std::printf("%s: %s\n", what, good ? "good" : "WRONG");
  if (!good) ++failures;
}

void CheckLists() {
  const Outcome all_again = Try({});
  Check("nothing kept", all_again.same && all_again.twice_ran == 2 && all_again.moved == 0);
  const Outcome by_name = Try({.save = {"restow_test::twice", "matmul"}});
  Check("kept by name", by_name.same && by_name.twice_ran == 1 && by_name.moved == 0);
  const Outcome half = Try({.save = {"every second matmul"}, .swap = {"aten::gelu"}});
  Check("kept and swapped", half.same && half.twice_ran == 2 && half.moved > 0);
}

void CheckPolicy() {
  std::vector<std::string> asked;
  std::size_t most_arguments = 0;
  OperatorOptions operators;
  operators.save = {"aten::mm"};
  operators.to_file = true;
  operators.policy = [&](const std::string& name, c10::ArrayRef<c10::IValue> arguments) {
    asked.push_back(name);
    most_arguments = std::max(most_arguments, arguments.size());
    return name == "restow_test::twice" ? OperatorAnswer::kSwap : OperatorAnswer::kRecompute;
  };
  const Outcome outcome = Try(operators);
  Check("swapped by a policy", outcome.same && outcome.twice_ran == 1 && outcome.moved > 0);
  std::string seen;
  for (const std::string& name : asked) seen += name + " ";
  std::printf("asked for %s\n", seen.c_str());
  bool each_once = most_arguments > 0;
  for (const char* const name : {"aten::gelu", "restow_test::twice", "aten::tanh"}) {
    each_once = each_once && std::count(asked.begin(), asked.end(), name) == 1;
  }
  Check("asked once, in the forward", each_once);
  Check("not asked for what a list names", std::count(asked.begin(), asked.end(), "aten::mm") == 0);
}

void CheckRefusals() {
  bool refused = false;
  try {
    Try({.save = {"core attention"}});
  } catch (const restow::Error& error) {
    refused = error.code() == restow::ErrorCode::kBadInput;
  }
  Check("a name that is none is refused", refused);
  bool thrown = false;
  OperatorOptions operators;
  operators.policy = [](const std::string&, c10::ArrayRef<c10::IValue>) -> OperatorAnswer {
    throw std::domain_error("in a policy");
  };
  try {
    Try(operators);
  } catch (const std::domain_error&) {
    thrown = true;
  }
  Check("what a policy throws comes out", thrown);
  Check("and the next checkpoint is whole", Try({.save = {"matmul"}}).same);
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "usage: selective_program FOLDER\n");
    return 2;
  }
  try {
    libtorch::Start();
    libtorch::Settings settings = libtorch::CurrentSettings();
    settings.file_dir = words[1];
    libtorch::Configure(settings);
    CheckLists();
    CheckPolicy();
    CheckRefusals();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return failures == 0 ? 0 : 1;
}
