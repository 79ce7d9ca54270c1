// restow schema: the published JSON Schemas.
#include "cli/common.h"
#include "cli/output.h"
#include "restow/io/write.h"

namespace restow::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string name;
};

int RunSchema(const Options& options) {
  std::string text;
  if (options.name.empty()) {
    for (const std::string& name : JsonSchemaNames()) text += name + "\n";
    Deliver(options.common, {[&](const TableStyle&) { return text; }, nullptr, nullptr});
    return kOk;
  }
  text = JsonSchema(options.name);
  Deliver(options.common, {[&](const TableStyle&) { return text; }, [&] { return text; }, nullptr});
  return kOk;
}

}  // namespace

void AddSchema(CLI::App& app, Commands& commands) {
  CLI::App& sub = *app.add_subcommand("schema", "print a JSON Schema; list their names");
  const auto options = std::make_shared<Options>();
  sub.add_option("NAME", options->name, "nothing lists the names")->type_name("");
  AddCommonOptions(sub, options->common);
  commands.push_back({&sub, [options] { return RunSchema(*options); }});
}

}  // namespace restow::cli
