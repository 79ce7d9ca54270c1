// The `restow` command: finds the subcommand, runs it, turns errors into exit codes.
#include <fmt/format.h>

#include <csignal>
#include <new>

#include "cli/common.h"
#include "cli/output.h"
#include "restow/base/error.h"

namespace restow::cli {
namespace {

int ExitCodeOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInternal:
      return kInternalError;
    case ErrorCode::kUsage:
      return kUsageError;
    case ErrorCode::kBadInput:
    case ErrorCode::kUnsupported:
      return kInputError;
  }
  return kInternalError;
}

int Run(int argc, char** argv) {
  const std::vector<Subcommand> subcommands = {
      {"plan", "search layouts and recompute, rank what fits", DeclarePlan},
      {"price", "price one candidate: memory and time by term", DeclarePrice},
      {"explain", "say why a candidate was refused or lost", DeclareExplain},
      {"compare", "set two candidates side by side", DeclareCompare},
      {"export", "write the activation plan of a candidate", DeclareExport},
      {"validate", "hold the planner against measured runs", DeclareValidate},
      {"calibrate", "fit the constants to your own measured runs", DeclareCalibrate},
      {"devices", "show a device preset; list presets", DeclareDevices},
      {"models", "show what is read of a model; list presets", DeclareModels},
      {"schema", "print a JSON Schema; list their names", DeclareSchema}};
  const Parsed parsed = Parse(argc, argv, subcommands);
  if (parsed.run) return parsed.run();
  WriteStandardOutput(parsed.text);
  return kOk;
}

int RunGuarded(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const Error& error) {
    Say(fmt::format("{}: {}", error.code() == ErrorCode::kInternal ? "internal error" : "error",
                    error.what()));
    return ExitCodeOf(error.code());
  } catch (const std::bad_alloc&) {
    Say("internal error: out of memory");
  } catch (const std::exception& error) {
    Say(fmt::format("internal error: {}", error.what()));
  }
  return kInternalError;
}

}  // namespace
}  // namespace restow::cli

int main(int argc, char** argv) {
  restow::cli::HoldStandardStreams();
  std::signal(SIGPIPE, SIG_IGN);
  return restow::cli::RunGuarded(argc, argv);
}
