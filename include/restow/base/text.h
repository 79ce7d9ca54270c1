// Small text helpers shared by readers and messages. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace restow {

std::string_view Trim(std::string_view text);
std::string Lower(std::string_view text);
// "a, b and c".
std::string JoinWords(const std::vector<std::string>& words, std::string_view last = "and");
// The candidate nearest in edit distance, or "" when none is close enough to be a typo.
std::string NearestWord(std::string_view word, const std::vector<std::string>& candidates);
// "; did you mean 'x'?" or "".
std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates);
// `*` matches within a segment, `**` across segments; segments are divided by '.'.
bool GlobMatches(std::string_view pattern, std::string_view name);
// 16 hexadecimal digits; the same on every machine.
std::string Digest(std::string_view bytes);

}  // namespace restow
