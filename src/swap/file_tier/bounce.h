// A buffer aligned for direct I/O, for callers' buffers that are not.
#pragma once

#include <cstddef>
#include <cstdint>

namespace restow::swap::file_tier {

class Bounce {
 public:
  Bounce() = default;
  Bounce(const Bounce&) = delete;
  Bounce& operator=(const Bounce&) = delete;
  ~Bounce();

  // Mapped at the first call and then kept; false if the system gives no memory. Not inherited by
  // children: a fork during a direct read could otherwise hand the bytes to the child's copy.
  bool Ensure(std::size_t size, std::size_t alignment);
  char* data() const { return data_; }

 private:
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  char* data_ = nullptr;
};

}  // namespace restow::swap::file_tier
