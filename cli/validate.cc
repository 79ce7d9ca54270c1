// restow validate: the planner held against measured runs.
#include "restow/validate/validate.h"

#include <memory>

#include "cli/common.h"
#include "cli/output.h"
#include "restow/io/measured_runs.h"
#include "restow/io/write.h"
#include "restow/report/validation.h"

namespace restow::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string runs, row, by, calibration;
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

int ShowAll(const Options& options, const ValidateOptions& validate) {
  Validation validation;
  const Answer answer{[&](const TableStyle& style) { return DrawValidation(validation, style); },
                      [&] { return ToJson(validation); }, [&] { return ValidationCsv(validation); }};
  CheckOutputs(options.common, answer);
  validation = ValidateRuns(ReadMeasuredRuns(options.runs), validate);
  Deliver(options.common, answer);
  return kOk;
}

int RunValidate(const Options& options) {
  ValidateOptions validate;
  if (!options.by.empty()) validate.by = options.by;
  validate.threads = options.common.threads.value_or(0);
  Calibration calibration;
  if (!options.calibration.empty()) {
    calibration = ReadCalibration(ReadDocument(options.calibration));
    validate.calibration = &calibration;
  }
  return options.row.empty() ? ShowAll(options, validate) : ShowOne(options, validate);
}

}  // namespace

std::function<int()> DeclareValidate(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.Positional("RUNS", options->runs,
                       "CSV of measured runs (columns: docs/fidelity.md); - reads standard input",
                       true);
  arguments.Option("--row", options->row, "ID", "show one run whole: its job, by term, by rank");
  arguments.Option("--by", options->by, "KEY", "group errors by source (default), model or device");
  arguments.Option("--calibration", options->calibration, "FILE",
                   "constants instead of the shipped ones");
  DeclareCommon(arguments, options->common);
  return [options] { return RunValidate(*options); };
}

}  // namespace restow::cli
