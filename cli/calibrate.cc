// restow calibrate: the planner's constants fitted to a user's own runs.
#include "restow/validate/calibrate.h"

#include <fmt/format.h>

#include <memory>

#include "cli/common.h"
#include "cli/output.h"
#include "restow/base/error.h"
#include "restow/io/measured_runs.h"
#include "restow/io/write.h"
#include "restow/report/validation.h"

namespace restow::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string runs, output, calibration;
  bool want_template = false;
  bool from_start = false;
  bool no_left_out = false;
};

int Fit(const Options& options) {
  CalibrationReport report;
  const Answer answer{[&](const TableStyle& style) { return DrawCalibration(report, style); },
                      [&] { return ToJson(report); }, nullptr};
  CheckOutputs(options.common, answer);
  CalibrateOptions calibrate;
  calibrate.id = CalibrationId(options.output);
  calibrate.threads = options.common.threads.value_or(0);
  calibrate.from_start = options.from_start;
  calibrate.leave_out = !options.no_left_out;
  if (!options.common.quiet) calibrate.progress = [](const std::string& line) { Say(line); };
  Calibration base;
  if (!options.calibration.empty()) {
    base = ReadCalibrationFile(options.calibration);
    calibrate.calibration = &base;
  }
  report = Calibrate(ReadMeasuredRuns(options.runs), calibrate);
  WriteFileText(options.output, CalibrationText(report.calibration));
  Deliver(options.common, answer);
  return kOk;
}

int RunCalibrate(const Options& options) {
  if (options.want_template) {
    WriteStandardOutput(CalibrationTemplate());
    return kOk;
  }
  if (options.runs.empty()) {
    ThrowUsage("RUNS is missing: a CSV of measured runs; --template prints an example");
  }
  if (options.output.empty()) ThrowUsage("-o FILE is missing: where the fitted constants go");
  return Fit(options);
}

}  // namespace

std::function<int()> DeclareCalibrate(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.Positional("RUNS", options->runs, "CSV of measured runs; - reads standard input",
                       false);
  arguments.Option("-o,--output", options->output, "FILE",
                   "where the constants go; its name appears in every report made with them");
  arguments.Flag("--template", options->want_template,
                 "print a filled-in example of the table and stop");
  arguments.Option("--calibration", options->calibration, "FILE",
                   "start from these constants instead of the shipped ones");
  arguments.Flag("--from-start", options->from_start,
                 "forget earlier fits: start from what was believed before any");
  arguments.Flag("--no-left-out", options->no_left_out,
                 "skip the errors of models and sources that a fit did not see");
  DeclareCommon(arguments, options->common);
  return [options] { return RunCalibrate(*options); };
}

}  // namespace restow::cli
