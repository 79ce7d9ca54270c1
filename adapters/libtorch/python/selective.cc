#include "python/selective.h"

#include <torch/csrc/jit/python/pybind_utils.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/selective.h"
#include "python/interpreter.h"
#include "restow/base/error.h"

namespace py = pybind11;

namespace restow::libtorch {
namespace {

// What the Python side gave once; all are kept for good.
struct Names {
  PyObject* operator_of = nullptr;  // (name, overload) -> OpOverload
  PyObject* context = nullptr;      // ctx of the forward
  PyObject* refuse = nullptr;       // raises for an answer that is none
  std::unordered_map<PyObject*, OperatorChoice> answers;
  std::unordered_map<const void*, PyObject*> operators;
};
Names& TheNames() {
  static auto* const names = new Names;
  return *names;
}

PyObject* OperatorOf(const c10::OperatorHandle& op) {
  Names& names = TheNames();
  PyObject*& object = names.operators[&op.schema()];
  if (object == nullptr) {
    const auto& name = op.operator_name();
    object = PyObject_CallFunction(names.operator_of, "ss", name.name.c_str(),
                                   name.overload_name.c_str());
    if (object == nullptr) ThrowPythonError();
  }
  return object;
}

OperatorChoice ChoiceOf(PyObject* answer) {
  const auto& answers = TheNames().answers;
  const auto found = answers.find(answer);
  if (found != answers.end()) return found->second;
  PyObject* const nothing = PyObject_CallOneArg(TheNames().refuse, answer);
  Py_XDECREF(nothing);
  ThrowPythonError();
}

// policy(ctx, op, *args, **kwargs)
OperatorChoice Ask(PyObject* policy, const c10::OperatorHandle& op,
                   const torch::jit::Stack& stack) {
  const WithLock lock;
  const auto& arguments = op.schema().arguments();
  const std::size_t first = stack.size() - arguments.size();
  std::size_t positional = 0;
  while (positional < arguments.size() && !arguments[positional].kwarg_only()) ++positional;
  py::tuple args(positional + 2);
  args[0] = py::reinterpret_borrow<py::object>(TheNames().context);
  args[1] = py::reinterpret_borrow<py::object>(OperatorOf(op));
  for (std::size_t i = 0; i < positional; ++i) {
    args[i + 2] = torch::jit::toPyObject(stack[first + i]);
  }
  py::dict keywords;
  for (std::size_t i = positional; i < arguments.size(); ++i) {
    keywords[py::str(arguments[i].name())] = torch::jit::toPyObject(stack[first + i]);
  }
  PyObject* const answer = PyObject_Call(policy, args.ptr(), keywords.ptr());
  if (answer == nullptr) ThrowPythonError();
  const auto held = py::reinterpret_steal<py::object>(answer);
  return ChoiceOf(answer);
}

StackPolicy PolicyOf(const py::object& policy) {
  if (policy.is_none()) return nullptr;
  return [held = std::make_shared<Held>(policy.ptr())](const c10::OperatorHandle& op,
                                                       const torch::jit::Stack& stack) {
    return Ask(held->get(), op, stack);
  };
}

struct NamedOperators {
  std::shared_ptr<const OperatorNames> names;
};

NamedOperators NamesOf(const std::vector<std::pair<std::string, int>>& choices) {
  auto names = std::make_shared<OperatorNames>();
  for (const auto& [name, choice] : choices) {
    AddOperators(*names, name, static_cast<OperatorChoice>(choice));
  }
  return {std::move(names)};
}

// Requires: this thread is in the forward of a frame, at its beginning. `swap`: false keeps what
// would be swapped. `file`, `group`, `manual`: as of a region.
void Select(const std::optional<NamedOperators>& names, const py::object& policy, bool swap,
            bool file, const std::string& group, bool manual, bool fuse, const PoolPtr& pool) {
  Running* const running = CurrentlyRunning();
  if (running == nullptr || running->again) {
    ThrowUsage(
        "the contexts of create_selective_checkpoint_contexts work inside "
        "restow.torch.checkpoint only: pass them as its context_fn");
  }
  RegionSpec spec;
  spec.site = KeptSiteOf(running->frame->name());
  spec.group = group;
  spec.mode = swap ? RegionMode::kSwap : RegionMode::kKeep;
  spec.place = file ? swap::Place::kFile : swap::Place::kHost;
  spec.steering = manual ? swap::Steering::kManual : swap::Steering::kAutomatic;
  spec.fuse = fuse;
  spec.pool = pool;
  running->frame->Select(
      std::make_shared<Selection>(names ? names->names : nullptr, PolicyOf(policy),
                                  std::make_shared<SavingRegion>(std::move(spec))));
  Watch(*running);
}

void EndSelect() {
  Running* const running = CurrentlyRunning();
  if (running == nullptr || running->again) return;
  running->watching.reset();
  if (running->frame->selection()) running->frame->selection()->End();
}

}  // namespace

void DefineSelective(py::module_& m) {
  py::class_<NamedOperators>(m, "OperatorNames").def(py::init(&NamesOf));
  m.def("select", &Select);
  m.def("end_select", &EndSelect);
  m.def("kept_site", &KeptSiteOf);
  m.def("ignore_operators", &IgnoreOperators);
  m.def("set_operator_names", [](const py::object& operator_of, const py::object& context,
                                 const py::object& refuse, const py::list& answers) {
    Names& names = TheNames();
    names.operator_of = Py_NewRef(operator_of.ptr());
    names.context = Py_NewRef(context.ptr());
    names.refuse = Py_NewRef(refuse.ptr());
    for (const py::handle pair : answers) {
      const auto entry = py::cast<py::tuple>(pair);
      names.answers[Py_NewRef(py::object(entry[0]).ptr())] =
          static_cast<OperatorChoice>(py::cast<int>(entry[1]));
    }
  });
}

}  // namespace restow::libtorch
