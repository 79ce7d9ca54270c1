#include "python/handles.h"

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/python_variable.h>

#include <new>
#include <utility>

#include "engine/host.h"

namespace restow::libtorch {
namespace {

struct ProviderObject {
  PyObject_HEAD ProviderPtr provider;
};

struct SlotObject {
  PyObject_HEAD std::shared_ptr<SavedSlot> slot;
};

PyTypeObject* provider_type = nullptr;
PyTypeObject* slot_type = nullptr;

template <typename Object>
void Dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  reinterpret_cast<Object*>(self)->~Object();
  type->tp_free(self);
  Py_DECREF(type);
}

template <typename Object>
Object* New(PyTypeObject* type) {
  PyObject* const raw = type->tp_alloc(type, 0);
  return raw != nullptr ? reinterpret_cast<Object*>(raw) : nullptr;
}

PyObject* PackCall(PyObject* self, PyObject* args, PyObject* /*keywords*/) {
  if (PyTuple_GET_SIZE(args) != 1 || !THPVariable_Check(PyTuple_GET_ITEM(args, 0))) {
    PyErr_SetString(PyExc_TypeError, "a pack hook takes one tensor");
    return nullptr;
  }
  try {
    const ProviderPtr provider = reinterpret_cast<ProviderObject*>(self)->provider;
    return HandleOf(provider->Pack(THPVariable_Unpack(PyTuple_GET_ITEM(args, 0))));
  } catch (...) {
    SetPythonError();
    return nullptr;
  }
}

PyObject* UnpackCall(PyObject* /*module*/, PyObject* slot) {
  if (Py_TYPE(slot) != slot_type) {
    PyErr_SetString(PyExc_TypeError, "this unpack hook takes what its pack hook gave");
    return nullptr;
  }
  try {
    const std::shared_ptr<SavedSlot> saved = reinterpret_cast<SlotObject*>(slot)->slot;
    return THPVariable_Wrap(saved->Unpack());
  } catch (...) {
    SetPythonError();
    return nullptr;
  }
}

PyMethodDef unpack_method = {"unpack", UnpackCall, METH_O, "Gives a saved tensor back."};

PyTypeObject* MakeClass(const char* name, int size, destructor dealloc, ternaryfunc call) {
  PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                         {call != nullptr ? Py_tp_call : 0, reinterpret_cast<void*>(call)},
                         {0, nullptr}};
  PyType_Spec spec = {name, size, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  PyObject* const type = PyType_FromSpec(&spec);
  if (type == nullptr) ThrowPythonError();
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

void MakeHandleClasses() {
  provider_type = MakeClass("restow.torch._native.PackHook", sizeof(ProviderObject),
                            &Dealloc<ProviderObject>, &PackCall);
  slot_type =
      MakeClass("restow.torch._native.Slot", sizeof(SlotObject), &Dealloc<SlotObject>, nullptr);
}

PyObject* HandleOf(ProviderPtr provider) {
  auto* const object = New<ProviderObject>(provider_type);
  if (object == nullptr) return nullptr;
  new (&object->provider) ProviderPtr(std::move(provider));
  return reinterpret_cast<PyObject*>(object);
}

const ProviderPtr* ProviderOfHandle(PyObject* object) {
  if (object == nullptr || Py_TYPE(object) != provider_type) return nullptr;
  return &reinterpret_cast<ProviderObject*>(object)->provider;
}

PyObject* HandleOf(std::shared_ptr<SavedSlot> slot) {
  auto* const object = New<SlotObject>(slot_type);
  if (object == nullptr) return nullptr;
  new (&object->slot) std::shared_ptr<SavedSlot>(std::move(slot));
  return reinterpret_cast<PyObject*>(object);
}

PyObject* UnpackFunction() {
  static PyObject* const function = PyCFunction_New(&unpack_method, nullptr);
  return function;
}

std::pair<c10::SafePyObject, c10::SafePyObject> UnpackDataOf(std::shared_ptr<SavedSlot> slot) {
  const WithLock lock;
  return {c10::SafePyObject(Py_NewRef(UnpackFunction()), getPyInterpreter()),
          c10::SafePyObject(HandleOf(std::move(slot)), getPyInterpreter())};
}

void PushHooks(const ProviderPtr& provider) {
  PyObject* const pack = HandleOf(provider);
  if (pack == nullptr) ThrowPythonError();
  at::SavedTensorDefaultHooks::lazy_initialize();
  at::SavedTensorDefaultHooks::push_hooks(
      c10::SafePyObject(pack, getPyInterpreter()),
      c10::SafePyObject(Py_NewRef(UnpackFunction()), getPyInterpreter()));
}

void PopHooks() { at::SavedTensorDefaultHooks::pop_hooks(); }

}  // namespace restow::libtorch
