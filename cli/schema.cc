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

std::function<int()> DeclareSchema(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.Positional("NAME", options->name, "nothing lists the names", false);
  DeclareCommon(arguments, options->common);
  return [options] { return RunSchema(*options); };
}

}  // namespace restow::cli
