#include "swap/file_tier/bounce.h"

#include <sys/mman.h>

#include <memory>

namespace restow::swap::file_tier {

Bounce::~Bounce() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_);
}

bool Bounce::Ensure(std::size_t size, std::size_t alignment) {
  if (mapping_ != nullptr) return true;
  std::size_t room = size + alignment;
  void* mapping = ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return false;
  ::madvise(mapping, room, MADV_DONTFORK);
  mapping_ = mapping;
  mapped_ = room;
  data_ = static_cast<char*>(std::align(alignment, size, mapping, room));
  return true;
}

}  // namespace restow::swap::file_tier
