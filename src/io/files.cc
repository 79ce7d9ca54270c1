// Whole files in, whole files out.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "io/limits.h"
#include "restow/io/document.h"

namespace restow {
namespace {

constexpr const char* kStandardInput = "<stdin>";

bool EndsWith(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

std::string Reason() { return std::strerror(errno); }

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ > 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string ReadAll(int fd, const std::string& name) {
  std::string text;
  char block[65536];
  while (true) {
    const ssize_t got = ::read(fd, block, sizeof block);
    if (got < 0) {
      if (errno == EINTR) continue;
      ThrowBadInput("cannot be read: " + Reason(), {name, 0, 0});
    }
    if (got == 0) return text;
    text.append(block, static_cast<std::size_t>(got));
    if (text.size() > kLargestFile) {
      ThrowBadInput(
          fmt::format("the file is larger than {} MiB, which is not read", kLargestFile >> 20),
          {name, 0, 0});
    }
  }
}

bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return ::fsync(fd) == 0;
}

}  // namespace

std::string ReadFileText(const std::string& path) {
  if (path == "-") return ReadAll(STDIN_FILENO, kStandardInput);
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    ThrowBadInput(errno == ENOENT ? "no such file" : "cannot be read: " + Reason(), {path, 0, 0});
  }
  if (S_ISDIR(info.st_mode)) ThrowBadInput("is a folder; a file is expected", {path, 0, 0});
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) ThrowBadInput("cannot be read: " + Reason(), {path, 0, 0});
  return ReadAll(file.get(), path);
}

Node ReadDocument(const std::string& path) {
  const Language language = EndsWith(path, ".json") ? Language::kJson : Language::kYaml;
  const std::string name = path == "-" ? kStandardInput : path;
  return ParseDocument(ReadFileText(path), language, name);
}

void WriteFileText(const std::string& path, std::string_view text) {
  std::string temporary = path + ".XXXXXX";
  const Descriptor file(::mkstemp(temporary.data()));
  if (file.get() < 0) ThrowBadInput("cannot be written: " + Reason(), {path, 0, 0});
  // mkstemp makes the file private; a report is as readable as any new file.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(file.get(), 0666 & ~mask);
  if (!WriteAll(file.get(), text) || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string reason = Reason();
    ::unlink(temporary.c_str());
    ThrowBadInput("cannot be written: " + reason, {path, 0, 0});
  }
}

}  // namespace restow
