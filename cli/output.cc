#include "cli/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace restow::cli {
namespace {

bool stdout_was_closed = false;

TableStyle StyleOf(const CommonOptions& common) {
  TableStyle style;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool refused = common.no_color || (no_color != nullptr && *no_color != '\0') ||
                       (term != nullptr && std::string_view(term) == "dumb");
  style.color = !refused && ::isatty(STDOUT_FILENO) != 0;
  return style;
}

// 0, or the errno of what failed.
int WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return 0;
}

// Devices, pipes and /dev/fd are written into; only regular files can be replaced whole.
bool IsReplaceable(const std::string& path) {
  if (path.rfind("/dev/", 0) == 0 || path.rfind("/proc/", 0) == 0) return false;
  struct stat info {};
  return ::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode);
}

void WriteInto(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const int failure = fd < 0 ? errno : WriteAll(fd, text);
  if (fd >= 0) ::close(fd);
  if (failure != 0 && failure != EPIPE) {
    ThrowBadInput(std::string("cannot be written: ") + std::strerror(failure), {path, 0, 0});
  }
}

void WriteFile(const std::string& path, std::string_view text) {
  if (IsReplaceable(path)) {
    WriteFileText(path, text);
  } else {
    WriteInto(path, text);
  }
}

void Require(bool available, const char* option) {
  if (!available) {
    ThrowUnsupported(fmt::format("{} of this subcommand is not available in this version", option));
  }
}

}  // namespace

void CheckOutputs(const CommonOptions& common, const Answer& answer) {
  if (common.json == "-" && common.csv == "-") {
    ThrowUsage("--json and --csv both want standard output; give one of them a file: --csv=FILE");
  }
  if (!common.json.empty()) Require(answer.json != nullptr, "--json");
  if (!common.csv.empty()) Require(answer.csv != nullptr, "--csv");
}

void Deliver(const CommonOptions& common, const Answer& answer) {
  CheckOutputs(common, answer);
  if (!common.json.empty() && common.json != "-") WriteFile(common.json, answer.json());
  if (!common.csv.empty() && common.csv != "-") WriteFile(common.csv, answer.csv());
  if (common.json == "-") {
    WriteStandardOutput(answer.json());
  } else if (common.csv == "-") {
    WriteStandardOutput(answer.csv());
  } else {
    WriteStandardOutput(answer.text(StyleOf(common)));
  }
}

void WriteStandardOutput(std::string_view text) {
  const int failure = stdout_was_closed ? EBADF : WriteAll(STDOUT_FILENO, text);
  if (failure == 0 || failure == EPIPE) return;
  ThrowBadInput(std::string("cannot be written: ") + std::strerror(failure),
                {"standard output", 0, 0});
}

void Say(const std::string& message) {
  // Nowhere is left to report a failure of this to.
  WriteAll(STDERR_FILENO, "restow: " + message + "\n");
}

void HoldStandardStreams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) != -1) continue;
    if (fd == STDOUT_FILENO) stdout_was_closed = true;
    // The lowest free descriptor is `fd`: those below it are open by now.
    if (::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd) return;
  }
}

}  // namespace restow::cli
