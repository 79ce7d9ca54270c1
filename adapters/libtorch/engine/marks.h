// Storages that a user has marked to move, whatever their size.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace restow::libtorch {

// Numbers tags; equal names have equal numbers.
std::int32_t TagNumber(const std::string& tag);
std::string TagName(std::int32_t number);

// Of one region. Threads: any.
class Marks {
 public:
  void Add(const at::Tensor& tensor, std::int32_t tag);
  // The tag of a marked storage, or -1.
  std::int32_t Find(const c10::StorageImpl* storage);
  // Notes the tags whose storages were never asked for.
  ~Marks();

 private:
  struct Mark {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    std::int32_t tag;
    bool saved;
  };
  std::mutex mutex_;
  std::unordered_map<const c10::StorageImpl*, Mark> marks_;
};

// Tags whose marked tensors autograd did not save, of regions that have ended.
std::vector<std::string> UnsavedTags();
void ForgetUnsavedTags();

}  // namespace restow::libtorch
