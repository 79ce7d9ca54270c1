// restow validate: the planner held against measured runs.
#include "restow/validate/validate.h"

#include <map>
#include <memory>

#include "cli/common.h"
#include "cli/output.h"
#include "restow/io/measured_runs.h"
#include "restow/io/write.h"
#include "restow/report/fidelity.h"
#include "restow/report/validation.h"

namespace restow::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string runs, row, by, calibration, page, notes;
};

int ShowOne(const Options& options, const ValidateOptions& validate) {
  RunReport report;
  const Answer answer{[&](const TableStyle& style) { return DrawRun(report, style); },
                      [&] { return ToJson(report); }, nullptr};
  CheckOutputs(options.common, answer);
  report = ShowRun(ReadMeasuredRuns(options.runs), options.row, validate);
  Deliver(options.common, answer);
  return kOk;
}

// "run: text" per line; the key names the run and the quantity: "mpt-071 time".
std::map<std::string, std::string> ReadNotes(const std::string& path) {
  std::map<std::string, std::string> notes;
  if (path.empty()) return notes;
  const Node document = ReadDocument(path);
  document.ExpectMap();
  for (const auto& [key, value] : document.members) notes[key] = value.AsString();
  return notes;
}

void WritePage(const Options& options, const Validation& validation) {
  if (options.page.empty()) return;
  const std::size_t dot = options.page.rfind('.');
  const std::string stem = options.page.substr(0, dot);
  const std::string name = stem.substr(stem.find_last_of('/') + 1);
  const std::string page = FidelityPage(validation, ReadNotes(options.notes), options.runs, name);
  WriteFileText(stem + "-memory.svg", ScatterSvg(validation, RunQuantity::kMemory));
  WriteFileText(stem + "-time.svg", ScatterSvg(validation, RunQuantity::kTime));
  WriteFileText(options.page, page);
}

int ShowAll(const Options& options, const ValidateOptions& validate) {
  Validation validation;
  const Answer answer{[&](const TableStyle& style) { return DrawValidation(validation, style); },
                      [&] { return ToJson(validation); },
                      [&] { return ValidationCsv(validation); }};
  CheckOutputs(options.common, answer);
  validation = ValidateRuns(ReadMeasuredRuns(options.runs), validate);
  WritePage(options, validation);
  Deliver(options.common, answer);
  return kOk;
}

int RunValidate(const Options& options) {
  ValidateOptions validate;
  if (!options.by.empty()) validate.by = options.by;
  validate.threads = options.common.threads.value_or(0);
  Calibration calibration;
  if (!options.calibration.empty()) {
    calibration = ReadCalibrationFile(options.calibration);
    validate.calibration = &calibration;
  }
  return options.row.empty() ? ShowAll(options, validate) : ShowOne(options, validate);
}

}  // namespace

std::function<int()> DeclareValidate(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.Positional("RUNS", options->runs,
                       "CSV of measured runs (columns: docs/measured-runs.md); - reads standard input",
                       true);
  arguments.Option("--row", options->row, "ID", "show one run whole: its job, by term, by rank");
  arguments.Option("--by", options->by, "KEY", "group errors by source (default), model or device");
  arguments.Option("--calibration", options->calibration, "FILE",
                   "constants instead of the shipped ones");
  arguments.Option("--page", options->page, "FILE.md",
                   "write the page of errors, with its two pictures beside it");
  arguments.Option("--notes", options->notes, "FILE",
                   "what misses were traced to, for the page: a map of \"RUN time\" to text");
  DeclareCommon(arguments, options->common);
  return [options] { return RunValidate(*options); };
}

}  // namespace restow::cli
