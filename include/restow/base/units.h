// Sizes, times and rates as users write them ("2GiB", "3 us", "3.35 TB/s") and read them.
//
// Parsing never guesses: a number without a unit is refused. All functions are pure.
// Errors: kBadInput, naming the text and the units allowed; the caller adds the position.
#pragma once

#include <string>
#include <string_view>

#include "restow/base/quantity.h"

namespace restow {

// B, kB, MB, GB, TB, PB (powers of 1000) and KiB, MiB, GiB, TiB, PiB (powers of 1024);
// case-insensitive.
Bytes ParseBytes(std::string_view text);
// ns, us, ms, s, min, h.
Seconds ParseSeconds(std::string_view text);
// A size per second: "450 GB/s".
BytesPerSecond ParseBytesPerSecond(std::string_view text);
// GFLOPS, TFLOPS, PFLOPS, also written "TFLOP/s".
FlopsPerSecond ParseFlopsPerSecond(std::string_view text);

// "71.3 GiB", "512 B": three significant digits or so, binary units.
std::string FormatBytes(Bytes bytes);
// "12.3 s", "4.56 ms".
std::string FormatSeconds(Seconds seconds);
// "1,234,567".
std::string FormatCount(std::int64_t count);
// "70.6 B", "8.03 B", "46.9 M": parameter counts, decimal.
std::string FormatParameters(std::int64_t count);

}  // namespace restow
