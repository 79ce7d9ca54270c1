// Providers and slots as Python objects, for torch's own stack of hooks.
#pragma once

#include <c10/core/SafePyObject.h>

#include <utility>

#include "engine/provider.h"
#include "python/interpreter.h"

namespace restow::libtorch {

// Makes the two classes. Errors: python_error.
void MakeHandleClasses();

// A callable: pack hook of a provider. New reference.
PyObject* HandleOf(ProviderPtr provider);
// The provider of a pack hook of ours; null for anyone else's. Reads two words: the lock need not
// be held, only the object.
const ProviderPtr* ProviderOfHandle(PyObject* object);

// A slot as an object. New reference.
PyObject* HandleOf(std::shared_ptr<SavedSlot> slot);
// The unpack hook: takes a slot's object, gives the tensor. Borrowed.
PyObject* UnpackFunction();

// Both, as compiled autograd wants them; the lock need not be held.
std::pair<c10::SafePyObject, c10::SafePyObject> UnpackDataOf(std::shared_ptr<SavedSlot> slot);

// On this thread, until the matching pop. The lock is held.
void PushHooks(const ProviderPtr& provider);
void PopHooks();

}  // namespace restow::libtorch
