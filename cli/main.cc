// The `restow` command: finds the subcommand, runs it, turns errors into exit codes.
#include <csignal>

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "cli/common.h"
#include "cli/output.h"
#include "restow/base/error.h"
#include "restow/base/text.h"

namespace restow::cli {
namespace {

// Named in the interfaces; a later version brings them.
constexpr std::array<std::string_view, 5> kLaterSubcommands = {"validate", "calibrate", "simulate",
                                                               "demo", "fit"};

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

std::vector<std::string> SubcommandNames(const Commands& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.app->get_name());
  return names;
}

// Before the parser sees them: a later or misspelt subcommand gets an answer of its own.
void CheckSubcommand(int argc, char** argv, const Commands& commands) {
  const auto first = std::find_if(argv + 1, argv + argc, [](const char* argument) {
    return *argument != '-' || argument[1] == '\0';
  });
  if (first == argv + argc) return;
  const std::string_view word = *first;
  if (std::find(kLaterSubcommands.begin(), kLaterSubcommands.end(), word) !=
      kLaterSubcommands.end()) {
    ThrowUnsupported(fmt::format("'{}' is not available in this version", word));
  }
  const std::vector<std::string> names = SubcommandNames(commands);
  if (std::find(names.begin(), names.end(), word) == names.end()) {
    ThrowUsage(fmt::format("no subcommand is called '{}'{}; there are {}", word,
                           DidYouMean(word, names), JoinWords(names)));
  }
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The parser's complaint in our words, with the nearest option for a misspelt one.
[[noreturn]] void ThrowParseError(const CLI::ParseError& error, const CLI::App& app,
                                  const std::string& command) {
  std::string hint;
  for (const std::string& argument : app.remaining(true)) {
    hint = DidYouMean(argument.substr(0, argument.find('=')), OptionNames(app));
    if (!hint.empty()) break;
  }
  ThrowUsage(fmt::format("{}{} ({} --help shows what is possible)", error.what(), hint, command));
}

int RunParsed(const Commands& commands) {
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  ThrowUsage(fmt::format("a subcommand is expected: {} (restow --help says what they do)",
                         JoinWords(SubcommandNames(commands), "or")));
}

int Run(int argc, char** argv) {
  CLI::App app("Finds the parallel layout and activation recompute that train a model fastest.");
  app.name("restow");
  app.set_version_flag("--version", std::string("restow ") + kVersion);
  app.require_subcommand(0, 1);
  Commands commands;
  AddPlan(app, commands);
  AddPrice(app, commands);
  AddExplain(app, commands);
  AddCompare(app, commands);
  AddExport(app, commands);
  AddDevices(app, commands);
  AddModels(app, commands);
  AddSchema(app, commands);
  CheckSubcommand(argc, argv, commands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    WriteStandardOutput(app.help());
    return kOk;
  } catch (const CLI::CallForVersion& version) {
    WriteStandardOutput(std::string(version.what()) + "\n");
    return kOk;
  } catch (const CLI::ParseError& error) {
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    const CLI::App& failed = chosen.empty() ? app : *chosen.front();
    ThrowParseError(error, failed, chosen.empty() ? "restow" : "restow " + failed.get_name());
  }
  return RunParsed(commands);
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
