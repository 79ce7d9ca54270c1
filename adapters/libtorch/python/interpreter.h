// Python around the adapter: its lock, its objects held from threads that do not hold the lock, its
// exceptions.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <memory>

namespace restow::libtorch {

// The interpreter's lock for a scope, on any thread.
class WithLock {
 public:
  WithLock() : state_(PyGILState_Ensure()) {}
  ~WithLock() { PyGILState_Release(state_); }
  WithLock(const WithLock&) = delete;
  WithLock& operator=(const WithLock&) = delete;

 private:
  PyGILState_STATE state_;
};

// A Python object that may be let go of anywhere: autograd destroys what it saved while it holds a
// lock of its own that Python code may wait for, so the interpreter's lock is not taken there. The
// object is released at the next chance.
class Held {
 public:
  explicit Held(PyObject* object);  // takes a reference; the lock is held
  ~Held();
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  PyObject* get() const { return object_; }

 private:
  PyObject* object_;
};
void ReleaseHeld();  // what waits to be let go of; the lock is held

// Sets Python's error from the exception being handled. The lock is held.
void SetPythonError();
// Throws the exception being handled as torch's python_error, which keeps its class on the way
// through autograd's threads. Torch's own exceptions pass as they are.
[[noreturn]] void ThrowAsPython();
// Throws the Python error that is set.
[[noreturn]] void ThrowPythonError();

// The class that ends a rerun: not an Exception, so that no ordinary handler swallows it.
PyObject* StopClass();
void SetStop(const void* frame);
// Clears the error and says true when it is a stop of `frame`.
bool ClearStop(const void* frame);

// `restow.errors`, looked up once. The lock is held.
void LoadErrors();

}  // namespace restow::libtorch
