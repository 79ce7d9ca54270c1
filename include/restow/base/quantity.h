// Numbers that know their unit. Mixing units does not compile.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>

namespace restow {

// `Rep` in the unit that `Tag` names. Only operations that keep the unit are defined; products and
// quotients of different quantities are written out below.
template <class Tag, class Rep>
class Quantity {
 public:
  using rep = Rep;

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep value) : value_(value) {}

  constexpr Rep value() const { return value_; }

  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator-(Quantity a) { return Quantity(-a.value_); }
  friend constexpr auto operator<=>(const Quantity&, const Quantity&) = default;

 private:
  Rep value_{};
};

// Bytes are whole: terms are rounded once, where they are formed, and then add up exactly.
using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Seconds = Quantity<struct SecondsTag, double>;
using Flops = Quantity<struct FlopsTag, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;

constexpr Bytes operator*(Bytes a, std::int64_t n) { return Bytes(a.value() * n); }
constexpr Bytes operator*(std::int64_t n, Bytes a) { return a * n; }
constexpr Seconds operator*(Seconds a, double x) { return Seconds(a.value() * x); }
constexpr Seconds operator*(double x, Seconds a) { return a * x; }
constexpr Seconds operator/(Seconds a, double x) { return Seconds(a.value() / x); }
constexpr double operator/(Seconds a, Seconds b) { return a.value() / b.value(); }
constexpr BytesPerSecond operator*(BytesPerSecond a, double x) {
  return BytesPerSecond(a.value() * x);
}
constexpr FlopsPerSecond operator*(FlopsPerSecond a, double x) {
  return FlopsPerSecond(a.value() * x);
}
constexpr Seconds operator/(Bytes a, BytesPerSecond b) {
  return Seconds(static_cast<double>(a.value()) / b.value());
}
constexpr Seconds operator/(Flops a, FlopsPerSecond b) { return Seconds(a.value() / b.value()); }

// Rounds a computed byte count up to a whole byte (a shard that does not divide evenly takes the
// larger part). Counts within 1e-6 of a whole number are that number.
inline Bytes WholeBytes(double bytes) {
  // std::ceil without a call: a search rounds millions of terms.
  const double shifted = bytes - 1e-6;
  const std::int64_t whole = static_cast<std::int64_t>(shifted);
  return Bytes(whole + (shifted > static_cast<double>(whole) ? 1 : 0));
}

inline constexpr std::int64_t kKiB = std::int64_t{1} << 10;
inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;
inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;

}  // namespace restow
