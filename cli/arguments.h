// What a subcommand takes, declared without the parser's own types: CLI11 is heavy to compile and
// is included in arguments.cc alone.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace restow::cli {

// Declares arguments onto variables, which must live until the command has run.
class Arguments {
 public:
  explicit Arguments(CLI::App& app) : app_(app) {}

  void Positional(const char* name, std::string& value, const char* help, bool required);
  // All that is left; declare it last.
  void Positionals(const char* name, std::vector<std::string>& values, const char* help);
  // `names` as "-o,--output", `type` as help shows the value: "DIR".
  void Option(const char* names, std::string& value, const char* type, const char* help,
              bool required = false);
  // A whole number within [low, high].
  void Number(const char* name, std::optional<int>& value, int low, int high, const char* help);
  void Flag(const char* name, bool& value, const char* help);
  // "--json" for standard output ("-"), "--json=FILE" for a file. It never takes the next argument.
  void FileFlag(const char* name, std::string& file, const char* help);
  // An option that interfaces name and a later version brings: stating it is refused as such.
  void Later(const char* name);

 private:
  CLI::App& app_;
};

// `declare` states the arguments and gives what runs once they are read; that gives the exit code.
struct Subcommand {
  std::string name, help;
  std::function<std::function<int()>(Arguments&)> declare;
};

// A text asked for (help, version), or what to run.
struct Parsed {
  std::string text;
  std::function<int()> run;
};

// Errors: kUsage, kUnsupported.
Parsed Parse(int argc, char** argv, const std::vector<Subcommand>& subcommands);

}  // namespace restow::cli
