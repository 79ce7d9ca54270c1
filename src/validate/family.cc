#include "validate/family.h"

#include <cctype>
#include <regex>
#include <utility>

#include "restow/base/text.h"

namespace restow::validate {

std::string FamilyOf(const std::string& model_name) {
  static const std::pair<const char*, const char*> known[] = {
      {"405b", "llama3-405b"},
      {R"(llama-?3(\.1)?[-_]70b)", "llama3-70b"},
      {R"(llama-?3(\.1)?[-_]8b)", "llama3-8b"},
      {"deepseek-?v3", "deepseek-v3"},
      {"grok", "grok1"},
      {"nemotron-?4", "nemotron4-340b"},
      {"gpt.oss.120b", "gpt-oss-120b"},
      {"gpt.oss.20b", "gpt-oss-20b"},
      {"qwen3.30b", "qwen3-30b"},
      {"qwen3.235b", "qwen3-235b"},
      {"llama-?2-70b", "llama2-70b"},
      {"llama-?2-13b", "llama2-13b"},
      {"llama-?2-7b", "llama2-7b"},
  };
  const std::string low = Lower(model_name);
  for (const auto& [pattern, family] : known) {
    if (std::regex_search(low, std::regex(pattern))) return family;
  }
  std::string plain;
  for (const char c : low) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.') plain += c;
  }
  return plain;
}

}  // namespace restow::validate
