// What the language around the adapter does for it: Python's lock, its errors, its stack of hooks.
// Programs in C++ need none of it.
#pragma once

#include <c10/core/SafePyObject.h>
#include <c10/core/TensorImpl.h>

#include <memory>
#include <utility>

#include "engine/provider.h"

namespace restow::libtorch {

struct Host {
  // The interpreter's lock: given up while the engine may wait. Null result: it was not held.
  void* (*release_lock)() = nullptr;
  void (*take_lock)(void* state) = nullptr;
  // Is the tensor, by its class, a parameter?
  bool (*is_parameter)(const c10::TensorImpl& tensor) = nullptr;
  // `provider` handles what this thread saves, until the matching pop.
  void (*push)(const ProviderPtr& provider) = nullptr;
  void (*pop)() = nullptr;
  // What compiled autograd asks for: a function of the language and its argument that unpack a
  // slot.
  std::pair<c10::SafePyObject, c10::SafePyObject> (*unpack_data)(std::shared_ptr<SavedSlot> slot) =
      nullptr;
  // Throws the exception being handled as one that the language knows.
  void (*rethrow)() = nullptr;
};

// Set once, before the first region. Threads: not while regions are open.
void SetHost(const Host& host);
const Host& TheHost();

// Calls, and turns what is thrown into what the language knows.
template <typename Call>
auto OrHostError(Call call) {
  try {
    return call();
  } catch (...) {
    if (TheHost().rethrow != nullptr) TheHost().rethrow();
    throw;
  }
}

// Gives the interpreter's lock up for a scope, where this thread holds it.
class LockPause {
 public:
  LockPause() : state_(TheHost().release_lock != nullptr ? TheHost().release_lock() : nullptr) {}
  ~LockPause() {
    if (state_ != nullptr) TheHost().take_lock(state_);
  }
  LockPause(const LockPause&) = delete;
  LockPause& operator=(const LockPause&) = delete;

 private:
  void* state_;
};

// A provider on this thread for a scope.
class ProviderScope {
 public:
  explicit ProviderScope(const ProviderPtr& provider);
  ~ProviderScope();
  ProviderScope(const ProviderScope&) = delete;
  ProviderScope& operator=(const ProviderScope&) = delete;
};

}  // namespace restow::libtorch
