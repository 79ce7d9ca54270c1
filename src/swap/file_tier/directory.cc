#include "swap/file_tier/directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <string_view>

#include "restow/base/error.h"

namespace restow::swap::file_tier {
namespace {

constexpr int kMostLinks = 40;  // as the kernel allows

[[noreturn]] void Fail(const std::string& path, const std::string& part, int error) {
  ThrowBadInput(fmt::format("the directory for the file tier cannot be opened: '{}': {}; it must "
                            "exist (mkdir -p) and be writable",
                            part, std::strerror(error)),
                {path});
}

std::deque<std::string> Parts(std::string_view path) {
  std::deque<std::string> parts;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    if (slash != 0) parts.emplace_back(path.substr(0, slash));
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return parts;
}

Descriptor Start(std::string_view path) {
  return Descriptor(::open(path.starts_with('/') ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

// The target of the link that is open as `link`.
std::string Target(const std::string& path, const std::string& part, int link, uid_t owner) {
  if (owner != 0 && owner != ::geteuid()) {
    ThrowBadInput(fmt::format("'{}' is a symbolic link made by user {}; only links of this user or "
                              "root are followed: name the directory itself",
                              part, owner),
                  {path});
  }
  std::array<char, PATH_MAX> target{};
  const ssize_t size = ::readlinkat(link, "", target.data(), target.size());
  if (size < 0) Fail(path, part, errno);
  return {target.data(), static_cast<std::size_t>(size)};
}

}  // namespace

Descriptor OpenDirectory(const std::string& path) {
  Descriptor at = Start(path);
  if (path.empty() || at.get() < 0) Fail(path, path, path.empty() ? ENOENT : errno);
  std::deque<std::string> parts = Parts(path);
  int links = 0;
  while (!parts.empty()) {
    const std::string part = parts.front();
    parts.pop_front();
    // O_NOFOLLOW with O_PATH opens a link itself: what is looked at is what is then followed.
    Descriptor next(::openat(at.get(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (next.get() < 0 || ::fstat(next.get(), &info) != 0) Fail(path, part, errno);
    if (!S_ISLNK(info.st_mode)) {
      at = std::move(next);
      continue;
    }
    if (++links > kMostLinks) Fail(path, part, ELOOP);
    const std::string target = Target(path, part, next.get(), info.st_uid);
    if (target.starts_with('/')) at = Start(target);
    std::deque<std::string> more = Parts(target);
    parts.insert(parts.begin(), more.begin(), more.end());
  }
  Descriptor directory(::openat(at.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) Fail(path, path, errno);
  return directory;
}

}  // namespace restow::swap::file_tier
