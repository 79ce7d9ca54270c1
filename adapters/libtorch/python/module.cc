// The Python module restow.torch._native: the adapter, call by call. What is friendlier than that
// is in python/restow/torch.
#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/checkpoint.h"
#include "engine/compat.h"
#include "engine/engines.h"
#include "engine/errors.h"
#include "engine/host.h"
#include "engine/region.h"
#include "engine/site.h"
#include "python/groups.h"
#include "python/handles.h"
#include "python/interpreter.h"
#include "python/proxy.h"
#include "python/selective.h"
#include "restow/base/units.h"

namespace py = pybind11;

namespace restow::libtorch {
namespace {

PyObject* parameter_classes = nullptr;  // a tuple
PyObject* policy_decider = nullptr;     // restow.torch._policy.decide

bool IsParameterObject(const c10::TensorImpl& tensor) {
  PyObject* const object = const_cast<c10::TensorImpl&>(tensor).pyobj_slot()->load_pyobj();
  if (object == nullptr || parameter_classes == nullptr) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parameter_classes); ++i) {
    auto* const type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(parameter_classes, i));
    if (Py_TYPE(object) == type || PyType_IsSubtype(Py_TYPE(object), type) != 0) return true;
  }
  return false;
}

void InstallHost() {
  Host host;
  host.release_lock = []() -> void* {
    return PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr;
  };
  host.take_lock = [](void* state) { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); };
  host.is_parameter = &IsParameterObject;
  host.push = [](const ProviderPtr& provider) {
    const WithLock lock;
    PushHooks(provider);
  };
  host.pop = [] {
    const WithLock lock;
    PopHooks();
  };
  host.unpack_data = &UnpackDataOf;
  host.rethrow = &ThrowAsPython;
  SetHost(host);
}

// --- policies ---

// The decider turns an answer into 0 (automatic), 1 (keep) or 2 (swap), or raises.
Policy PolicyOf(const py::object& function) {
  if (function.is_none()) return nullptr;
  return [held = std::make_shared<Held>(function.ptr())](const at::Tensor& tensor) {
    const WithLock lock;
    PyObject* const wrapped = THPVariable_Wrap(tensor);
    PyObject* const answer = PyObject_CallOneArg(held->get(), wrapped);
    Py_XDECREF(wrapped);
    if (answer == nullptr) ThrowPythonError();
    PyObject* const number = PyObject_CallOneArg(policy_decider, answer);
    Py_DECREF(answer);
    if (number == nullptr) ThrowPythonError();
    const long decision = PyLong_AsLong(number);
    Py_DECREF(number);
    return static_cast<swap::Decision>(decision);
  };
}

// --- regions ---

struct OpenRegion {
  std::shared_ptr<SavingRegion> region;
  bool pushed = false;
};

std::shared_ptr<OpenRegion> NewRegion(const std::string& site, const std::string& group, bool swap,
                                      const py::object& policy, std::int64_t min_bytes, bool file,
                                      bool fuse, bool manual, const PoolPtr& pool) {
  RegionSpec spec;
  spec.site = site;
  spec.group = group;
  spec.mode = swap ? RegionMode::kSwap : RegionMode::kKeep;
  spec.policy = PolicyOf(policy);
  spec.min_bytes = min_bytes;
  spec.place = file ? swap::Place::kFile : swap::Place::kHost;
  spec.steering = manual ? swap::Steering::kManual : swap::Steering::kAutomatic;
  spec.fuse = fuse;
  spec.pool = pool;
  auto open = std::make_shared<OpenRegion>();
  open->region = std::make_shared<SavingRegion>(std::move(spec));
  return open;
}

// Where saved-tensor hooks are forbidden (torch.func), torch saves as it would without us.
bool HooksAllowed() { return at::SavedTensorDefaultHooks::is_enabled(); }

void Enter(OpenRegion& open) {
  ReleaseHeld();
  open.pushed = HooksAllowed();
  if (open.pushed) PushHooks(open.region);
  EnterRegion(open.region);
}

void Leave(OpenRegion& open) {
  if (open.pushed) PopHooks();
  open.pushed = false;
  {
    const LockPause pause;
    LeaveRegion(open.region);
  }
}

bool Mark(const at::Tensor& tensor, const std::string& tag) {
  SavingRegion* const region = InnermostRegion();
  if (region == nullptr) return false;
  region->marks().Add(tensor, TagNumber(tag));
  return true;
}

// The label of the innermost open region; none outside.
std::optional<std::string> CurrentLabel() {
  SavingRegion* const region = InnermostRegion();
  return region != nullptr ? std::optional<std::string>(region->label()) : std::nullopt;
}

// Does somebody take what autograd saves now: a region, a checkpoint, or hooks that are not ours?
bool SavesAreTaken() {
  return HooksAllowed() && at::SavedTensorDefaultHooks::get_hooks(false).has_value();
}

// --- parameters ---

void RememberValues(PyObject* dict) {
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(dict, &at, &key, &value) != 0) {
    if (THPVariable_Check(value)) RememberParameter(THPVariable_Unpack(value));
  }
}

// Parameters and buffers of an nn.Module and of all below it. Read from the instance's own
// dictionary: a wrapper shows its inner module's children as its own and lists no parameters.
void RememberModule(PyObject* module, std::unordered_set<PyObject*>& seen) {
  static PyObject* const inner = PyUnicode_InternFromString("_ckpt_wrapped_module");
  static PyObject* const children = PyUnicode_InternFromString("_modules");
  static PyObject* const values[] = {PyUnicode_InternFromString("_parameters"),
                                     PyUnicode_InternFromString("_buffers")};
  if (!seen.insert(module).second) return;
  PyObject* const dict = PyObject_GenericGetDict(module, nullptr);
  if (dict == nullptr) {
    PyErr_Clear();
    return;
  }
  if (PyObject* const wrapped = PyDict_GetItem(dict, inner)) {
    RememberModule(wrapped, seen);
  } else {
    for (PyObject* const name : values) {
      PyObject* const entries = PyDict_GetItem(dict, name);
      if (entries != nullptr && PyDict_Check(entries)) RememberValues(entries);
    }
    PyObject* const modules = PyDict_GetItem(dict, children);
    PyObject *key = nullptr, *child = nullptr;
    Py_ssize_t at = 0;
    while (modules != nullptr && PyDict_Check(modules) &&
           PyDict_Next(modules, &at, &key, &child) != 0) {
      if (child != Py_None) RememberModule(child, seen);
    }
  }
  Py_DECREF(dict);
}

// --- checkpoints ---

Rerun RerunOf(PyObject* function) {
  return [held = std::make_shared<Held>(function)](std::vector<at::Tensor> inputs) {
    const WithLock lock;
    Running* const running = CurrentlyRunning();
    const Frame* const frame = running->frame;
    PyObject* const tuple = PyTuple_New(static_cast<Py_ssize_t>(inputs.size()));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      PyObject* const item = inputs[i].defined() ? THPVariable_Wrap(inputs[i]) : Py_NewRef(Py_None);
      PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), item);
    }
    inputs.clear();
    PyObject* const result = PyObject_CallOneArg(held->get(), tuple);
    Py_DECREF(tuple);
    if (result == nullptr && !ClearStop(frame)) ThrowPythonError();
    Py_XDECREF(result);
  };
}

struct OpenFrame {
  std::shared_ptr<Frame> frame;
  std::unique_ptr<RunningScope> running;
  bool pushed = false;
};

std::shared_ptr<OpenFrame> BeginFrame(const std::string& name, const py::tuple& inputs,
                                      const py::object& rerun, bool preserve_random,
                                      bool early_stop, int check,
                                      const std::shared_ptr<OpenRegion>& inputs_region) {
  ReleaseHeld();
  CheckpointSpec spec;
  spec.name = name;
  spec.preserve_random = preserve_random;
  spec.early_stop = early_stop;
  spec.check = static_cast<DeterminismCheck>(check);
  if (inputs_region && HooksAllowed()) spec.inputs_region = inputs_region->region;
  std::vector<at::Tensor> tensors;
  for (const py::handle input : inputs) tensors.push_back(THPVariable_Unpack(input.ptr()));
  auto open = std::make_shared<OpenFrame>();
  open->frame = Frame::Begin(std::move(spec), tensors, RerunOf(rerun.ptr()));
  if (inputs_region) inputs_region->region->End();
  open->running = std::make_unique<RunningScope>(*open->frame, false);
  open->pushed = HooksAllowed();
  if (open->pushed) PushHooks(open->frame);
  return open;
}

void EndFrame(OpenFrame& open) {
  if (open.pushed) PopHooks();
  open.pushed = false;
  open.running.reset();
  open.frame.reset();
}

// (again, number of this excluded region) of the frame that this thread runs; none outside.
std::optional<std::pair<bool, std::size_t>> NextExcluded() {
  Running* const running = CurrentlyRunning();
  if (running == nullptr) return std::nullopt;
  return std::pair(running->again, running->excluded++);
}

void StoreExcluded(std::size_t number, const py::object& result) {
  auto& results = CurrentlyRunning()->frame->excluded().results;
  if (results.size() <= number) results.resize(number + 1);
  results[number] = std::make_shared<Held>(result.ptr());
}

// None for a region whose forward raised: the rerun runs it, and it raises again.
py::object TakeExcluded(std::size_t number) {
  const auto& results = CurrentlyRunning()->frame->excluded().results;
  if (number >= results.size() || results[number] == nullptr) return py::none();
  return py::reinterpret_borrow<py::object>(static_cast<Held*>(results[number].get())->get());
}

// 0: not in a checkpoint, 1: in its forward, 2: in its rerun.
int RecomputeState() {
  Running* const running = CurrentlyRunning();
  return running == nullptr ? 0 : running->again ? 2 : 1;
}

// --- figures ---

py::dict StatsDict() {
  swap::Stats stats;
  {
    const LockPause pause;
    stats = SumOfStats();
  }
  py::dict dict;
  for (const Counter& counter : Counters()) dict[counter.name] = stats.*counter.field;
  dict["stall_s"] = stats.stall_s;
  dict["prefetch_distance"] = stats.prefetch_distance;
  dict["last_error"] = stats.last_error;
  return dict;
}

py::list Explanations() {
  py::list rows;
  for (const Explanation& line : Explain()) {
    rows.append(py::make_tuple(line.label, line.bytes, line.decision, line.reason));
  }
  return rows;
}

py::dict AllSiteBytes() {
  py::dict all;
  for (Site* site : AllSites()) {
    const std::lock_guard<std::mutex> lock(site->mutex);
    if (site->bytes.invocations == 0) continue;
    all[py::str(site->name)] =
        py::make_tuple(site->bytes.kept, site->bytes.swapped, site->bytes.invocations);
  }
  return all;
}

py::list TraceEvents() {
  std::vector<DeviceTrace> traces;
  {
    const LockPause pause;
    traces = StopTrace();
  }
  py::list rows;
  for (const DeviceTrace& trace : traces) {
    for (const swap::TraceEvent& event : trace.events) {
      rows.append(py::make_tuple(trace.device, event.direction == swap::Direction::kOut, event.unit,
                                 event.site, event.bytes, event.begin_s, event.end_s));
    }
  }
  return rows;
}

py::dict SettingsDict() {
  const Settings settings = CurrentSettings();
  py::dict dict;
  dict["file_dir"] = settings.file_dir;
  dict["file_cap"] = settings.file_cap;
  dict["host_cap"] = settings.host_cap;
  dict["window"] = settings.window;
  dict["min_bytes"] = settings.min_bytes;
  dict["keep_last_region"] = settings.keep_last_region;
  dict["watchdog_s"] = settings.watchdog_s;
  return dict;
}

void SetSettings(const std::string& file_dir, std::int64_t file_cap, std::int64_t host_cap,
                 std::int64_t window, std::int64_t min_bytes, bool keep_last_region,
                 double watchdog_s) {
  Settings settings;
  settings.file_dir = file_dir;
  settings.file_cap = file_cap;
  settings.host_cap = host_cap;
  settings.window = window;
  settings.min_bytes = min_bytes;
  settings.keep_last_region = keep_last_region;
  settings.watchdog_s = watchdog_s;
  const LockPause pause;
  Configure(settings);
}

template <typename Call>
void WithoutLock(Call call) {
  const LockPause pause;
  call();
}

c10::Device DeviceOf(const std::string& name) { return c10::Device(name); }

void Define(py::module_& m) {
  py::class_<PoolSpec, PoolPtr>(m, "Pool")
      .def(py::init([](std::int64_t max_bytes) {
        auto pool = std::make_shared<PoolSpec>();
        pool->max_bytes = max_bytes;
        return pool;
      }))
      .def_readonly("max_bytes", &PoolSpec::max_bytes);
  py::class_<OpenRegion, std::shared_ptr<OpenRegion>>(m, "Region")
      .def("enter", &Enter)
      .def("leave", &Leave);
  py::class_<OpenFrame, std::shared_ptr<OpenFrame>>(m, "Frame").def("end", &EndFrame);
  m.def("new_region", &NewRegion);
  m.def("mark", &Mark);
  m.def("current_label", &CurrentLabel);
  m.def("saves_are_taken", &SavesAreTaken);
  m.def("remember_module", [](const py::object& module) {
    std::unordered_set<PyObject*> seen;
    RememberModule(module.ptr(), seen);
  });
  m.def("remember", [](const at::Tensor& tensor) { RememberParameter(tensor); });
  m.def("is_movable",
        [](const at::Tensor& tensor) { return StandingOf(tensor) == Standing::kMovable; });
  m.def("begin_frame", &BeginFrame);
  m.def("next_excluded", &NextExcluded);
  m.def("store_excluded", &StoreExcluded);
  m.def("take_excluded", &TakeExcluded);
  m.def("recompute_state", &RecomputeState);
  m.def("obstacle", [](const std::string& device) { return ObstacleOf(DeviceOf(device)); });
  m.def("stats", &StatsDict);
  m.def("reset_stats", [] { WithoutLock(&ResetStats); });
  m.def("explain", &Explanations);
  m.def("forget_explanations", &ForgetExplanations);
  m.def("site_bytes", &AllSiteBytes);
  m.def("drain", [] { WithoutLock(&DrainAll); });
  m.def("start_trace", [] { WithoutLock(&StartTrace); });
  m.def("stop_trace", &TraceEvents);
  m.def("settings", &SettingsDict);
  m.def("configure", &SetSettings, py::kw_only(), py::arg("file_dir"), py::arg("file_cap"),
        py::arg("host_cap"), py::arg("window"), py::arg("min_bytes"), py::arg("keep_last_region"),
        py::arg("watchdog_s"));
  m.def("use_proxy", &SwitchProxy);
  m.def("parse_bytes", [](const std::string& text) { return ParseBytes(text).value(); });
  m.def("set_classes", [](const py::tuple& parameters, const py::object& decide) {
    parameter_classes = Py_NewRef(parameters.ptr());
    policy_decider = Py_NewRef(decide.ptr());
  });
  DefineGroups(m);
  m.attr("StopRecompute") = py::reinterpret_borrow<py::object>(StopClass());
  m.attr("torch_minor") = std::string(kTorchMinor);
}

}  // namespace
}  // namespace restow::libtorch

PYBIND11_MODULE(_native, m) {
  using namespace restow::libtorch;  // NOLINT(build/namespaces): this file is only its face
  LoadErrors();
  MakeHandleClasses();
  InstallHost();
  InstallProxy();
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const restow::Error&) {
      SetPythonError();
    } catch (const python_error&) {
      SetPythonError();
    }
  });
  Define(m);
  DefineSelective(m);
}
