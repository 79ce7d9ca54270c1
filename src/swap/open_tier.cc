// The file tier as the engine's store below host memory.
#include "restow/swap/file_tier.h"
#include "restow/swap/tier.h"

namespace restow::swap {
namespace {

class FilesBelow final : public Tier {
 public:
  explicit FilesBelow(const FileTierOptions& options) : files_(options) {}

  Ticket StartWrite(const void* data, std::size_t bytes) override {
    return files_.StartWrite(data, bytes).id;
  }
  Ticket StartRead(const Extent& extent, void* into) override {
    return files_.StartRead(ToFile(extent), into).id;
  }
  // A ticket that is not known is finished: Wait says what is wrong with it.
  bool Poll(Ticket ticket) noexcept override {
    try {
      return files_.Done({ticket});
    } catch (...) {
      return true;
    }
  }
  Extent Wait(Ticket ticket) override {
    const FileExtent extent = files_.Wait({ticket});
    return {extent.id, extent.size, 0};
  }
  void Release(const Extent& extent) noexcept override {
    try {
      files_.Release(ToFile(extent));
    } catch (...) {
      // After a fork the child's copy of a unit names a blob of the parent's.
    }
  }

 private:
  static FileExtent ToFile(const Extent& extent) {
    return {extent.place, static_cast<std::size_t>(extent.bytes)};
  }

  FileTier files_;
};

}  // namespace

std::shared_ptr<Tier> OpenFileTier(const std::string& dir, std::int64_t byte_cap) {
  FileTierOptions options;
  options.dir = dir;
  if (byte_cap >= 0) options.byte_cap = Bytes(byte_cap);
  return std::make_shared<FilesBelow>(options);
}

}  // namespace restow::swap
