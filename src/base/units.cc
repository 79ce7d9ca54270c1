#include "restow/base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <vector>

#include "restow/base/error.h"
#include "restow/base/text.h"

namespace restow {
namespace {

struct Unit {
  std::string_view name;  // lower case
  double factor;
};

constexpr std::array<Unit, 11> kSizes = {{{"b", 1},
                                          {"kb", 1e3},
                                          {"mb", 1e6},
                                          {"gb", 1e9},
                                          {"tb", 1e12},
                                          {"pb", 1e15},
                                          {"kib", 0x1p10},
                                          {"mib", 0x1p20},
                                          {"gib", 0x1p30},
                                          {"tib", 0x1p40},
                                          {"pib", 0x1p50}}};
constexpr std::array<Unit, 6> kTimes = {
    {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}}};
constexpr std::array<Unit, 3> kRates = {{{"gflops", 1e9}, {"tflops", 1e12}, {"pflops", 1e15}}};

struct Split {
  double number;
  std::string unit;  // lower case
};

Split SplitNumber(std::string_view text, const char* what, const char* example) {
  const std::string_view trimmed = Trim(text);
  double number = 0;
  const char* end = trimmed.data() + trimmed.size();
  const auto parsed = std::from_chars(trimmed.data(), end, number);
  if (parsed.ec != std::errc() || !std::isfinite(number)) {
    ThrowBadInput(fmt::format("'{}' is not {}; write it like '{}'", text, what, example));
  }
  const std::string_view rest(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  if (Trim(rest).empty()) {
    ThrowBadInput(fmt::format("'{}' has no unit; write {} like '{}'", text, what, example));
  }
  if (number < 0) {
    ThrowBadInput(fmt::format("'{}' is negative; write {} like '{}'", text, what, example));
  }
  return {number, Lower(Trim(rest))};
}

template <std::size_t N>
double Convert(const std::array<Unit, N>& units, const Split& split, std::string_view text,
               const char* what) {
  for (const Unit& unit : units) {
    if (unit.name == split.unit) return split.number * unit.factor;
  }
  std::vector<std::string> names;
  for (const Unit& unit : units) names.emplace_back(unit.name);
  ThrowBadInput(
      fmt::format("'{}' has an unknown unit; {} takes {}", text, what, JoinWords(names, "or")));
}

// Values beyond 2^63 bytes are typing errors, not sizes.
constexpr double kLargest = 9.2e18;

}  // namespace

Bytes ParseBytes(std::string_view text) {
  const Split split = SplitNumber(text, "a size", "2GiB");
  const double bytes = Convert(kSizes, split, text, "a size");
  if (bytes > kLargest) ThrowBadInput(fmt::format("'{}' is larger than 2^63 bytes", text));
  return Bytes(std::llround(bytes));
}

Seconds ParseSeconds(std::string_view text) {
  return Seconds(Convert(kTimes, SplitNumber(text, "a time", "3 us"), text, "a time"));
}

BytesPerSecond ParseBytesPerSecond(std::string_view text) {
  Split split = SplitNumber(text, "a bandwidth", "450 GB/s");
  const std::string suffix = "/s";
  if (split.unit.size() <= 2 || split.unit.substr(split.unit.size() - 2) != suffix) {
    ThrowBadInput(fmt::format("'{}' is not a bandwidth; write it like '450 GB/s'", text));
  }
  split.unit = split.unit.substr(0, split.unit.size() - 2);
  return BytesPerSecond(Convert(kSizes, split, text, "a bandwidth (a size before /s)"));
}

FlopsPerSecond ParseFlopsPerSecond(std::string_view text) {
  Split split = SplitNumber(text, "a rate of operations", "989 TFLOPS");
  if (split.unit.size() > 6 && split.unit.substr(1) == "flop/s")
    split.unit = split.unit[0] + std::string("flops");
  return FlopsPerSecond(Convert(kRates, split, text, "a rate of operations"));
}

std::string FormatBytes(Bytes bytes) {
  const double value = static_cast<double>(bytes.value());
  const double size = std::fabs(value);
  struct Step {
    double from, unit;
    const char* name;
  };
  constexpr Step steps[] = {{0x1p40, 0x1p40, "TiB"},
                            {0x1p30, 0x1p30, "GiB"},
                            {0x1p20, 0x1p20, "MiB"},
                            {0x1p10, 0x1p10, "KiB"}};
  for (const Step& step : steps) {
    if (size < step.from) continue;
    const double scaled = value / step.unit;
    return fmt::format("{:.{}f} {}", scaled, std::fabs(scaled) < 10 ? 2 : 1, step.name);
  }
  return fmt::format("{} B", bytes.value());
}

std::string FormatSeconds(Seconds seconds) {
  const double s = seconds.value();
  const double size = std::fabs(s);
  if (size >= 600) return fmt::format("{:.1f} min", s / 60);
  if (size >= 1 || size == 0) return fmt::format("{:.{}f} s", s, size < 10 ? 2 : 1);
  if (size >= 1e-3) return fmt::format("{:.{}f} ms", s * 1e3, size < 1e-2 ? 2 : 1);
  return fmt::format("{:.1f} us", s * 1e6);
}

std::string FormatCount(std::int64_t count) {
  std::string digits = std::to_string(count < 0 ? -count : count);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return count < 0 ? "-" + digits : digits;
}

std::string FormatParameters(std::int64_t count) {
  const double n = static_cast<double>(count);
  if (n >= 1e12) return fmt::format("{:.2f} T", n / 1e12);
  if (n >= 1e9) return fmt::format("{:.{}f} B", n / 1e9, n < 1e10 ? 2 : 1);
  if (n >= 1e6) return fmt::format("{:.{}f} M", n / 1e6, n < 1e7 ? 2 : 1);
  return FormatCount(count);
}

}  // namespace restow
