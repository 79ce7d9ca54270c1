#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include "restow/base/units.h"

namespace restow::cli {
namespace {

constexpr auto kPause = std::chrono::milliseconds(100);

void WriteError(const std::string& text) {
  // A progress line that cannot be shown is not worth a failure.
  [[maybe_unused]] const ssize_t put = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

Progress::Progress(bool wanted) : shown_(wanted && ::isatty(STDERR_FILENO) != 0) {}

void Progress::Show(const SearchProgress& state) {
  const auto now = std::chrono::steady_clock::now();
  if (!shown_ || (drawn_ && now - last_ < kPause)) return;
  last_ = now;
  drawn_ = true;
  const double share =
      state.units > 0 ? 100.0 * static_cast<double>(state.done) / static_cast<double>(state.units)
                      : 0;
  const std::string best = state.best > Seconds() ? FormatSeconds(state.best) : "none yet";
  WriteError(fmt::format("\r\x1b[Ksearching {:3.0f} %: {} candidates, {} fit, best {}", share,
                         FormatCount(state.candidates), FormatCount(state.fitting), best));
}

void Progress::Clear() {
  if (drawn_) WriteError("\r\x1b[K");
  drawn_ = false;
}

}  // namespace restow::cli
