#include "engine/marks.h"

#include <algorithm>

namespace restow::libtorch {
namespace {

struct Tags {
  std::mutex mutex;
  std::vector<std::string> names;
  std::vector<bool> unsaved;
};

Tags& TheTags() {
  static auto* const tags = new Tags;
  return *tags;
}

void NoteSaved(std::int32_t tag, bool saved) {
  Tags& tags = TheTags();
  const std::lock_guard<std::mutex> lock(tags.mutex);
  tags.unsaved[static_cast<std::size_t>(tag)] = !saved;
}

}  // namespace

std::int32_t TagNumber(const std::string& tag) {
  Tags& tags = TheTags();
  const std::lock_guard<std::mutex> lock(tags.mutex);
  const auto found = std::find(tags.names.begin(), tags.names.end(), tag);
  if (found != tags.names.end()) return static_cast<std::int32_t>(found - tags.names.begin());
  tags.names.push_back(tag);
  tags.unsaved.push_back(false);
  return static_cast<std::int32_t>(tags.names.size() - 1);
}

std::string TagName(std::int32_t number) {
  Tags& tags = TheTags();
  const std::lock_guard<std::mutex> lock(tags.mutex);
  return tags.names.at(static_cast<std::size_t>(number));
}

std::vector<std::string> UnsavedTags() {
  Tags& tags = TheTags();
  const std::lock_guard<std::mutex> lock(tags.mutex);
  std::vector<std::string> unsaved;
  for (std::size_t i = 0; i < tags.names.size(); ++i) {
    if (tags.unsaved[i]) unsaved.push_back(tags.names[i]);
  }
  return unsaved;
}

void ForgetUnsavedTags() {
  Tags& tags = TheTags();
  const std::lock_guard<std::mutex> lock(tags.mutex);
  tags.unsaved.assign(tags.names.size(), false);
}

void Marks::Add(const at::Tensor& tensor, std::int32_t tag) {
  const std::lock_guard<std::mutex> lock(mutex_);
  marks_.insert_or_assign(tensor.storage().unsafeGetStorageImpl(),
                          Mark{tensor.storage().getWeakStorageImpl(), tag, false});
}

std::int32_t Marks::Find(const c10::StorageImpl* storage) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = marks_.find(storage);
  if (found == marks_.end()) return -1;
  found->second.saved = true;
  return found->second.tag;
}

Marks::~Marks() {
  for (const auto& [storage, mark] : marks_) NoteSaved(mark.tag, mark.saved);
}

}  // namespace restow::libtorch
