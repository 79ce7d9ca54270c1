#include "cli/presets.h"

namespace restow::cli {

std::string JsonList(const std::vector<std::string>& documents) {
  std::string text = "[\n";
  for (std::size_t i = 0; i < documents.size(); ++i) {
    std::string document = documents[i];
    if (!document.empty() && document.back() == '\n') document.pop_back();
    text += document + (i + 1 < documents.size() ? ",\n" : "\n");
  }
  return text + "]\n";
}

}  // namespace restow::cli
