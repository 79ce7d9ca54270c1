// Sections of the job file made of a run. Private to job_text*.cc.
#pragma once

#include <fmt/format.h>

#include <string>

#include "validate/job_text.h"

namespace restow::validate {

// Lines of one YAML section with their indentation.
class Section {
 public:
  Section(std::string* out, const char* name) : out_(out) { *out_ += fmt::format("{}:\n", name); }

  template <class T>
  void Set(const std::string& key, const T& value) {
    *out_ += fmt::format("  {}: {}\n", key, value);
  }
  void Text(const std::string& key, const std::string& value) {
    std::string quoted = "\"";
    for (const char c : value) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
    Set(key, quoted + "\"");
  }
  void Truth(const std::string& key, bool value) { Set(key, value ? "true" : "false"); }

 private:
  std::string* out_;
};

void WriteModel(const MeasuredRun& run, JobText* job);
void WriteTraining(const MeasuredRun& run, JobText* job);
void WriteLayout(const MeasuredRun& run, JobText* job);  // `current` and `search`

}  // namespace restow::validate
