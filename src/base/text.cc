#include "restow/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>

namespace restow {
namespace {

bool IsSpace(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// Levenshtein distance.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1] ? 1u : 0u)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::string JoinWords(const std::vector<std::string>& words, std::string_view last) {
  std::string joined;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) joined += i + 1 == words.size() ? fmt::format(" {} ", last) : ", ";
    joined += words[i];
  }
  return joined;
}

std::string NearestWord(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = 1 + std::max<std::size_t>(1, word.size() / 3);
  const std::string lower = Lower(word);
  for (const std::string& candidate : candidates) {
    const std::size_t distance = EditDistance(lower, Lower(candidate));
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string nearest = NearestWord(word, candidates);
  return nearest.empty() || nearest == word ? "" : fmt::format("; did you mean '{}'?", nearest);
}

bool GlobMatches(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] != '*') {
    return !name.empty() && pattern[0] == name[0] && GlobMatches(pattern.substr(1), name.substr(1));
  }
  const bool across = pattern.size() > 1 && pattern[1] == '*';
  const std::string_view rest = pattern.substr(across ? 2 : 1);
  for (std::size_t taken = 0; taken <= name.size(); ++taken) {
    if (GlobMatches(rest, name.substr(taken))) return true;
    if (!across && taken < name.size() && name[taken] == '.') return false;
  }
  return false;
}

std::string Digest(std::string_view bytes) {
  // FNV-1a, 64 bits: an identity for provenance, not a defence against forgery.
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : bytes) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211u;
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace restow
