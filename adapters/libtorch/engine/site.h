// A place in the program at which tensors are saved, with what became of them the last time.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "engine/storage.h"
#include "restow/libtorch.h"
#include "restow/swap/options.h"

namespace restow::libtorch {

// One saved tensor's fate, kept small: it is made on every save.
struct Record {
  static constexpr int kDims = 6;
  std::array<std::int64_t, kDims> sizes{};
  std::int8_t dims = 0;
  Standing standing = Standing::kMovable;
  bool asked = false;    // the engine was asked, and gave `reason`
  bool to_keep = false;  // the caller wants it to stay
  swap::Reason reason = swap::Reason::kKeptEmpty;
  bool again = false;   // of a storage that was saved before
  std::string because;  // where neither of the two says it
  std::int64_t bytes = 0;
  std::int32_t tag = -1;           // of swap_tensor_wrapper
  const void* identity = nullptr;  // tells storages of one invocation apart
  c10::weak_intrusive_ptr<c10::StorageImpl> storage{c10::intrusive_ptr<c10::StorageImpl>()};
};

// Of one finished invocation. Units: bytes of storages, each once, without parameters.
struct SiteBytes {
  std::int64_t kept = 0, swapped = 0;
  std::int64_t invocations = 0;
};

// Lives as long as the process.
struct Site {
  std::string name;
  std::mutex mutex;  // guards what follows
  SiteBytes bytes;
  std::vector<Record> records;  // of the last finished invocation that saved something
  std::string label;            // of its group, or the name
};

// Is a storage of which the engine said this going to leave the device?
bool Moves(swap::Reason reason);

Site& SiteOf(const std::string& name);
std::vector<Site*> AllSites();

// Forgets what Explain (libtorch.h) would say: the last invocation of every site, equal lines once.
void ForgetExplanations();

}  // namespace restow::libtorch
