// How a question names a candidate, and how its dimensions replace those stated before.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "restow/base/error.h"
#include "restow/base/text.h"
#include "restow/io/read.h"

namespace restow {
namespace {

// 0 when the text is no rank.
int RankOf(const std::string& text) {
  int rank = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return 0;
  if (rank < 1) ThrowUsage(fmt::format("'{}' is no rank; ranks count from 1", text));
  return rank;
}

std::string DimensionOf(const std::string& argument) {
  return Lower(Trim(std::string_view(argument).substr(0, argument.find('='))));
}

}  // namespace

std::vector<std::string> MergeDimensions(std::vector<std::string> dimensions,
                                         const std::vector<std::string>& over) {
  std::erase_if(dimensions, [&](const std::string& stated) {
    return std::any_of(over.begin(), over.end(), [&](const std::string& argument) {
      return DimensionOf(argument) == DimensionOf(stated);
    });
  });
  dimensions.insert(dimensions.end(), over.begin(), over.end());
  return dimensions;
}

CandidateName ReadCandidateName(const std::string& text) {
  CandidateName name;
  name.text = text;
  name.rank = RankOf(text);
  name.current = Lower(text) == "current";
  if (name.rank > 0) {
    name.text = "rank " + text;
  } else if (!name.current) {
    if (text.find('=') == std::string::npos) {
      ThrowUsage(
          fmt::format("'{}' is not a candidate; a rank of the plan, current, or one quoted "
                      "argument like 'tp=8 pp=4 recompute=full' is expected",
                      text));
    }
    std::istringstream words(text);
    for (std::string word; words >> word;) name.dimensions.push_back(word);
  }
  return name;
}

}  // namespace restow
