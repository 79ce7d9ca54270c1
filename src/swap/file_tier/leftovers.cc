#include "swap/file_tier/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <fstream>
#include <vector>

#include "swap/file_tier/descriptor.h"

namespace restow::swap::file_tier {
namespace {

constexpr std::string_view kPrefix = "restow-", kSuffix = ".swap";

// Field 22 of /proc/self/stat, counted behind the command's name, which may hold spaces (proc(5)).
std::string StartOfProcess() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return "0";
  std::size_t at = name_end + 2;
  for (int field = 3; field < 22 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  if (at == std::string::npos) return "0";
  return text.substr(at + 1, text.find(' ', at + 1) - at - 1);
}

std::vector<std::string> SwapFilesIn(int dir) {
  std::vector<std::string> names;
  const int copy = ::openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return names;
  DIR* listing = ::fdopendir(copy);
  if (listing == nullptr) {
    ::close(copy);
    return names;
  }
  while (const dirent* entry = ::readdir(listing)) {
    if (IsSwapFileName(entry->d_name)) names.emplace_back(entry->d_name);
  }
  ::closedir(listing);
  return names;
}

bool RemoveIfDead(FileOps& ops, int dir, const std::string& name) {
  const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const Descriptor file(::openat(dir, name.c_str(), flags));
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) return false;
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) return false;
  if (ops.Lock(file.get()) < 0) return false;
  // Removing the file of a process that has not come to lock it yet does no harm: it was about to
  // remove the name itself.
  return ops.Unlink(dir, name.c_str()) == 0;
}

}  // namespace

std::string NewSwapFileName() {
  static std::atomic<int> count{0};
  return fmt::format("{}{}-{}-{}{}", kPrefix, ::getpid(), StartOfProcess(), count++, kSuffix);
}

bool IsSwapFileName(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  if (name.size() < kPrefix.size() + kSuffix.size()) return false;
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  int dashes = 0;
  char last = '-';
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (c != '-' || last == '-')) return false;
    dashes += c == '-' ? 1 : 0;
    last = c;
  }
  return dashes == 2 && last != '-';
}

int RemoveLeftovers(FileOps& ops, int dir) {
  int removed = 0;
  for (const std::string& name : SwapFilesIn(dir)) removed += RemoveIfDead(ops, dir, name) ? 1 : 0;
  return removed;
}

}  // namespace restow::swap::file_tier
