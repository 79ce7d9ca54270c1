// The Python module restow.emulator._native: emulator.h, call by call. Values only; what is
// friendlier than that is in python/restow/emulator.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <torch/csrc/Generator.h>

#include <exception>
#include <string>

#include "emulator/device.h"
#include "emulator/emulator.h"
#include "emulator/guard.h"
#include "restow/base/error.h"
#include "restow/base/units.h"

namespace {

using namespace restow::emulator;  // NOLINT(build/namespaces): this file is only its face

// Runs `call` without the interpreter's lock where it may wait; errors become Python's.
template <typename Call>
PyObject* Guarded(Call call) {
  try {
    return call();
  } catch (const restow::Error& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

template <typename Call>
PyObject* Waiting(Call call) {
  return Guarded([&]() -> PyObject* {
    PyThreadState* const state = PyEval_SaveThread();
    try {
      call();
    } catch (...) {
      PyEval_RestoreThread(state);
      throw;
    }
    PyEval_RestoreThread(state);
    Py_RETURN_NONE;
  });
}

constexpr const char* kSchedules[] = {"early", "late", "random", "threads"};
constexpr const char* kClocks[] = {"virtual", "real"};

template <typename Enum, std::size_t n>
Enum Parse(const char* what, const char* const (&names)[n], const std::string& text) {
  std::string allowed;
  for (std::size_t i = 0; i < n; ++i) {
    if (text == names[i]) return static_cast<Enum>(i);
    allowed += std::string(i == 0 ? "" : ", ") + names[i];
  }
  restow::ThrowBadInput(std::string(what) + " '" + text + "' is unknown; allowed are " + allowed);
}

PyObject* SetOptions(PyObject* /*module*/, PyObject* args) {
  const char* schedule = nullptr;
  const char* clock = nullptr;
  unsigned long long seed = 0;
  long long pinned_bytes = -1;
  Options options;
  int one_stream = 0, pinned = 0, opaque = 0, trace = 0;
  if (PyArg_ParseTuple(args, "ssKddippLpp", &schedule, &clock, &seed, &options.launch_s,
                       &options.poll_s, &options.devices, &one_stream, &pinned, &pinned_bytes,
                       &opaque, &trace) == 0) {
    return nullptr;
  }
  return Waiting([&] {
    options.schedule = Parse<Schedule>("schedule", kSchedules, schedule);
    options.clock = Parse<ClockKind>("clock", kClocks, clock);
    options.seed = seed;
    options.one_stream = one_stream != 0;
    options.pinned = pinned != 0;
    if (pinned_bytes >= 0) options.pinned_bytes = static_cast<std::uint64_t>(pinned_bytes);
    options.opaque = opaque != 0;
    options.trace = trace != 0;
    Configure(options);
  });
}

PyObject* GetOptions(PyObject* /*module*/, PyObject* /*none*/) {
  const Options options = CurrentOptions();
  const long long pinned_bytes =
      options.pinned_bytes ? static_cast<long long>(*options.pinned_bytes) : -1;
  return Py_BuildValue("(ssKddiOOLOO)", kSchedules[static_cast<int>(options.schedule)],
                       kClocks[static_cast<int>(options.clock)],
                       static_cast<unsigned long long>(options.seed), options.launch_s,
                       options.poll_s, options.devices, options.one_stream ? Py_True : Py_False,
                       options.pinned ? Py_True : Py_False, pinned_bytes,
                       options.opaque ? Py_True : Py_False, options.trace ? Py_True : Py_False);
}

// {name: (seconds, bytes per second)}; false with a Python error set.
bool ReadCosts(PyObject* dict, std::map<std::string, OperatorCost>& costs) {
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(dict, &at, &key, &value) != 0) {
    const char* const name = PyUnicode_AsUTF8(key);
    OperatorCost cost;
    if (name == nullptr ||
        PyArg_ParseTuple(value, "dd", &cost.seconds, &cost.bytes_per_second) == 0) {
      return false;
    }
    costs[name] = cost;
  }
  return true;
}

PyObject* SetDeviceOptions(PyObject* /*module*/, PyObject* args) {
  int device = 0;
  unsigned long long capacity = 0;
  DeviceOptions options;
  PyObject* costs = nullptr;
  if (PyArg_ParseTuple(args, "iKddO!", &device, &capacity, &options.h2d_bytes_per_second,
                       &options.d2h_bytes_per_second, &PyDict_Type, &costs) == 0 ||
      !ReadCosts(costs, options.op_cost)) {
    return nullptr;
  }
  options.capacity_bytes = capacity;
  return Waiting([&] { ConfigureDevice(device, options); });
}

PyObject* GetDeviceOptions(PyObject* /*module*/, PyObject* args) {
  int device = 0;
  if (PyArg_ParseTuple(args, "i", &device) == 0) return nullptr;
  return Guarded([&]() -> PyObject* {
    const DeviceOptions options = CurrentDeviceOptions(device);
    PyObject* const costs = PyDict_New();
    for (const auto& [name, cost] : options.op_cost) {
      PyObject* const pair = Py_BuildValue("(dd)", cost.seconds, cost.bytes_per_second);
      PyDict_SetItemString(costs, name.c_str(), pair);
      Py_DECREF(pair);
    }
    return Py_BuildValue("(KddN)", static_cast<unsigned long long>(options.capacity_bytes),
                         options.h2d_bytes_per_second, options.d2h_bytes_per_second, costs);
  });
}

PyObject* GetNow(PyObject* /*module*/, PyObject* /*none*/) { return PyFloat_FromDouble(Now()); }

PyObject* GetHostWait(PyObject* /*module*/, PyObject* /*none*/) {
  return PyFloat_FromDouble(HostWait());
}

PyObject* Restart(PyObject* /*module*/, PyObject* /*none*/) {
  return Waiting([] { RestartClock(); });
}

PyObject* GetRaces(PyObject* /*module*/, PyObject* /*none*/) {
  PyObject* const list = PyList_New(0);
  for (const Race& race : Races()) {
    PyObject* const item = Py_BuildValue("(ssss)", race.kind.c_str(), race.tensor.c_str(),
                                         race.first.c_str(), race.second.c_str());
    PyList_Append(list, item);
    Py_DECREF(item);
  }
  return list;
}

PyObject* ForgetRaces(PyObject* /*module*/, PyObject* /*none*/) {
  ClearRaces();
  Py_RETURN_NONE;
}

PyObject* GetTrace(PyObject* /*module*/, PyObject* /*none*/) {
  PyObject* const list = PyList_New(0);
  for (const TraceSpan& span : Trace()) {
    PyObject* const item = Py_BuildValue("(siidd)", span.name.c_str(), span.device, span.stream,
                                         span.begin_s, span.end_s);
    PyList_Append(list, item);
    Py_DECREF(item);
  }
  return list;
}

PyObject* GetMemory(PyObject* /*module*/, PyObject* args) {
  int device = 0;
  if (PyArg_ParseTuple(args, "i", &device) == 0) return nullptr;
  return Guarded([&]() -> PyObject* {
    const MemoryFigures memory = Memory(device);
    return Py_BuildValue("(KKKKKK)", static_cast<unsigned long long>(memory.allocated_bytes),
                         static_cast<unsigned long long>(memory.peak_allocated_bytes),
                         static_cast<unsigned long long>(memory.active_bytes),
                         static_cast<unsigned long long>(memory.peak_active_bytes),
                         static_cast<unsigned long long>(memory.allocations),
                         static_cast<unsigned long long>(memory.out_of_memory_errors));
  });
}

PyObject* ResetPeak(PyObject* /*module*/, PyObject* args) {
  int device = 0;
  if (PyArg_ParseTuple(args, "i", &device) == 0) return nullptr;
  return Waiting([&] { ResetPeakMemory(device); });
}

PyObject* GetPinnedBytes(PyObject* /*module*/, PyObject* /*none*/) {
  return PyLong_FromUnsignedLongLong(PinnedBytes());
}

PyObject* GetGenerator(PyObject* /*module*/, PyObject* args) {
  int device = 0;
  if (PyArg_ParseTuple(args, "i", &device) == 0) return nullptr;
  return Guarded([&] {
    CurrentDeviceOptions(device);  // refuses a device that does not exist
    return THPGenerator_Wrap(DefaultGenerator(device));
  });
}

PyObject* ParseWith(PyObject* args, double (*parse)(const std::string&)) {
  const char* text = nullptr;
  if (PyArg_ParseTuple(args, "s", &text) == 0) return nullptr;
  return Guarded([&] { return PyFloat_FromDouble(parse(text)); });
}

PyObject* ParseSize(PyObject* /*module*/, PyObject* args) {
  return ParseWith(args, [](const std::string& text) {
    return static_cast<double>(restow::ParseBytes(text).value());
  });
}

PyObject* ParseRate(PyObject* /*module*/, PyObject* args) {
  return ParseWith(
      args, [](const std::string& text) { return restow::ParseBytesPerSecond(text).value(); });
}

PyObject* ParseTime(PyObject* /*module*/, PyObject* args) {
  return ParseWith(args,
                   [](const std::string& text) { return restow::ParseSeconds(text).value(); });
}

PyMethodDef kMethods[] = {
    {"set_options", SetOptions, METH_VARARGS, nullptr},
    {"get_options", GetOptions, METH_NOARGS, nullptr},
    {"set_device_options", SetDeviceOptions, METH_VARARGS, nullptr},
    {"get_device_options", GetDeviceOptions, METH_VARARGS, nullptr},
    {"now", GetNow, METH_NOARGS, nullptr},
    {"host_wait", GetHostWait, METH_NOARGS, nullptr},
    {"restart_clock", Restart, METH_NOARGS, nullptr},
    {"races", GetRaces, METH_NOARGS, nullptr},
    {"clear_races", ForgetRaces, METH_NOARGS, nullptr},
    {"trace", GetTrace, METH_NOARGS, nullptr},
    {"memory", GetMemory, METH_VARARGS, nullptr},
    {"reset_peak_memory", ResetPeak, METH_VARARGS, nullptr},
    {"pinned_bytes", GetPinnedBytes, METH_NOARGS, nullptr},
    {"default_generator", GetGenerator, METH_VARARGS, nullptr},
    {"parse_size", ParseSize, METH_VARARGS, nullptr},
    {"parse_rate", ParseRate, METH_VARARGS, nullptr},
    {"parse_time", ParseTime, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef kModule = {
    PyModuleDef_HEAD_INIT, "_native", nullptr, -1, kMethods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__native() { return PyModule_Create(&kModule); }
