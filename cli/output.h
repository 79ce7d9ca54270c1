// Where answers go: standard output and files. Nothing reaches standard output before every file
// has been written, so that an error leaves it empty.
#pragma once

#include <functional>
#include <string>

#include "cli/common.h"
#include "restow/report/table.h"

namespace restow::cli {

// Forms of one answer, each made only when asked for. An empty form is not available.
struct Answer {
  std::function<std::string(const TableStyle&)> text;
  std::function<std::string()> json;
  std::function<std::string()> csv;
};

// Errors: kUsage when JSON and CSV both want standard output, kUnsupported for a form that is not
// available, kBadInput when something cannot be written.
void Deliver(const CommonOptions& common, const Answer& answer);
// The same checks before any work is done.
void CheckOutputs(const CommonOptions& common, const Answer& answer);

// Text as it is. A reader that has gone away is not an error.
void WriteStandardOutput(std::string_view text);

// "restow: MESSAGE" on standard error.
void Say(const std::string& message);

// To be called first: a closed standard stream must not become the next file that is opened.
void HoldStandardStreams();

}  // namespace restow::cli
