#include "cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string_view>

#include "restow/base/error.h"
#include "restow/base/text.h"
#include "restow/plan/planner.h"

namespace restow::cli {
namespace {

// Named in the interfaces; a later version brings them.
constexpr std::array<std::string_view, 3> kLaterSubcommands = {"simulate", "demo", "fit"};

std::vector<std::string> NamesOf(const std::vector<Subcommand>& subcommands) {
  std::vector<std::string> names;
  for (const Subcommand& subcommand : subcommands) names.push_back(subcommand.name);
  return names;
}

// Before the parser sees them: a later or misspelt subcommand gets an answer of its own.
void CheckSubcommand(int argc, char** argv, const std::vector<std::string>& names) {
  const auto first = std::find_if(argv + 1, argv + argc, [](const char* argument) {
    return *argument != '-' || argument[1] == '\0';
  });
  if (first == argv + argc) return;
  const std::string_view word = *first;
  if (std::find(kLaterSubcommands.begin(), kLaterSubcommands.end(), word) !=
      kLaterSubcommands.end()) {
    ThrowUnsupported(fmt::format("'{}' is not available in this version", word));
  }
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

}  // namespace

void Arguments::Positional(const char* name, std::string& value, const char* help, bool required) {
  app_.add_option(name, value, help)->required(required)->type_name("");
}

void Arguments::Positionals(const char* name, std::vector<std::string>& values, const char* help) {
  app_.add_option(name, values, help)->type_name("");
}

void Arguments::Option(const char* names, std::string& value, const char* type, const char* help,
                       bool required) {
  app_.add_option(names, value, help)->required(required)->type_name(type);
}

void Arguments::Number(const char* name, std::optional<int>& value, int low, int high,
                       const char* help) {
  app_.add_option(name, value, help)->check(CLI::Range(low, high))->type_name("N");
}

void Arguments::Flag(const char* name, bool& value, const char* help) {
  app_.add_flag(name, value, help);
}

void Arguments::FileFlag(const char* name, std::string& file, const char* help) {
  app_.add_flag(std::string(name) + "{-}", file, help);
}

void Arguments::Later(const char* name) {
  const std::string option = name;
  app_.add_option_function<std::vector<std::string>>(
          option,
          [option](const std::vector<std::string>&) {
            ThrowUnsupported(fmt::format("{} is not available in this version", option));
          })
      ->expected(0, 1)
      ->group("");
}

Parsed Parse(int argc, char** argv, const std::vector<Subcommand>& subcommands) {
  CLI::App app("Finds the parallel layout and activation recompute that train a model fastest.");
  app.name("restow");
  const std::string version = std::string("restow ") + kVersion;
  app.set_version_flag("--version", version);
  app.require_subcommand(0, 1);
  std::vector<std::pair<CLI::App*, std::function<int()>>> declared;
  for (const Subcommand& subcommand : subcommands) {
    CLI::App* sub = app.add_subcommand(subcommand.name, subcommand.help);
    sub->set_version_flag("--version", version);
    Arguments arguments(*sub);
    declared.emplace_back(sub, subcommand.declare(arguments));
  }
  CheckSubcommand(argc, argv, NamesOf(subcommands));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {app.help(), nullptr};
  } catch (const CLI::CallForVersion&) {
    return {version + "\n", nullptr};
  } catch (const CLI::ParseError& error) {
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    const CLI::App& failed = chosen.empty() ? app : *chosen.front();
    ThrowParseError(error, failed, chosen.empty() ? "restow" : "restow " + failed.get_name());
  }
  for (auto& [sub, run] : declared) {
    if (sub->parsed()) return {"", std::move(run)};
  }
  ThrowUsage(fmt::format("a subcommand is expected: {} (restow --help says what they do)",
                         JoinWords(NamesOf(subcommands), "or")));
}

}  // namespace restow::cli
