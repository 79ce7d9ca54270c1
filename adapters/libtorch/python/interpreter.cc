#include "python/interpreter.h"

#include <torch/csrc/Exceptions.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/checkpoint.h"
#include "engine/errors.h"

namespace restow::libtorch {
namespace {

struct Waiting {
  std::mutex mutex;
  std::vector<PyObject*> objects;
  bool asked = false;
};

Waiting& TheWaiting() {
  static auto* const waiting = new Waiting;
  return *waiting;
}

int ReleaseWhenAsked(void* /*nothing*/) {
  ReleaseHeld();
  return 0;
}

struct ErrorClasses {
  PyObject *error = nullptr, *input = nullptr, *modified = nullptr, *unsupported = nullptr,
           *not_deterministic = nullptr;
};
ErrorClasses classes;

void Set(PyObject* type, const std::string& text) {
  PyErr_SetString(type != nullptr ? type : PyExc_RuntimeError, text.c_str());
}

PyObject* ClassOf(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kUnsupported:
      return classes.unsupported;
    case ErrorCode::kBadInput:
      return classes.input;
    default:
      return classes.error;
  }
}

}  // namespace

Held::Held(PyObject* object) : object_(Py_NewRef(object)) {}

Held::~Held() {
  if (Py_IsInitialized() == 0) return;
  if (PyGILState_Check() != 0) {
    Py_DECREF(object_);
    return;
  }
  Waiting& waiting = TheWaiting();
  bool ask = false;
  {
    const std::lock_guard<std::mutex> lock(waiting.mutex);
    waiting.objects.push_back(object_);
    ask = !std::exchange(waiting.asked, true);
  }
  if (ask) Py_AddPendingCall(&ReleaseWhenAsked, nullptr);
}

void ReleaseHeld() {
  Waiting& waiting = TheWaiting();
  std::vector<PyObject*> objects;
  {
    const std::lock_guard<std::mutex> lock(waiting.mutex);
    objects.swap(waiting.objects);
    waiting.asked = false;
  }
  for (PyObject* object : objects) Py_DECREF(object);
}

void LoadErrors() {
  PyObject* const module = PyImport_ImportModule("restow.errors");
  if (module == nullptr) throw python_error();
  classes.error = PyObject_GetAttrString(module, "Error");
  classes.input = PyObject_GetAttrString(module, "InputError");
  classes.modified = PyObject_GetAttrString(module, "ModifiedInPlace");
  classes.unsupported = PyObject_GetAttrString(module, "Unsupported");
  classes.not_deterministic = PyObject_GetAttrString(module, "NotDeterministic");
  Py_DECREF(module);
}

void SetPythonError() {
  try {
    throw;
  } catch (python_error& error) {
    if (error.type != nullptr) error.restore();
  } catch (const StopRecompute& stop) {
    SetStop(stop.frame);
  } catch (const ModifiedInPlace& error) {
    Set(classes.modified, error.what());
  } catch (const NotDeterministic& error) {
    Set(classes.not_deterministic, error.what());
  } catch (const Error& error) {
    Set(ClassOf(error), error.what());
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
  }
}

void ThrowPythonError() {
  python_error error;
  error.persist();
  throw error;
}

void ThrowAsPython() {
  try {
    throw;
  } catch (const StopRecompute&) {
    const WithLock lock;
    SetPythonError();
    ThrowPythonError();
  } catch (const Error&) {
    const WithLock lock;
    SetPythonError();
    ThrowPythonError();
  } catch (...) {
    throw;
  }
}

PyObject* StopClass() {
  static PyObject* const type =
      PyErr_NewException("restow.torch._native.StopRecompute", PyExc_BaseException, nullptr);
  return type;
}

void SetStop(const void* frame) {
  PyObject* const name = PyLong_FromVoidPtr(const_cast<void*>(frame));
  PyErr_SetObject(StopClass(), name);
  Py_DECREF(name);
}

bool ClearStop(const void* frame) {
  if (PyErr_ExceptionMatches(StopClass()) == 0) return false;
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyObject* const args = PyObject_GetAttrString(value, "args");
  const bool ours = args != nullptr && PyTuple_Check(args) && PyTuple_GET_SIZE(args) == 1 &&
                    PyLong_AsVoidPtr(PyTuple_GET_ITEM(args, 0)) == frame;
  Py_XDECREF(args);
  if (!ours) {
    PyErr_Restore(type, value, trace);
    return false;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return true;
}

}  // namespace restow::libtorch
