// restow models: what was read of a model, or the presets.
#include "cli/common.h"
#include "cli/output.h"
#include "restow/io/presets.h"
#include "restow/io/write.h"

namespace restow::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string model;
};

int ShowOne(const Options& options) {
  const Model model = ReadModel(options.model, options.common.strict);
  Deliver(options.common, {[&](const TableStyle& style) { return DrawModel(model, style); },
                           [&] { return ToJson(model); }, nullptr});
  return kOk;
}

int ShowPresets(const Options& options) {
  std::vector<Model> models;
  for (const std::string& name : ModelPresets()) models.push_back(ModelPreset(name));
  const auto json = [&] {
    std::vector<std::string> documents;
    for (const Model& model : models) documents.push_back(ToJson(model));
    return JsonList(documents);
  };
  Deliver(options.common,
          {[&](const TableStyle& style) { return DrawModels(models, style); }, json, nullptr});
  return kOk;
}

}  // namespace

std::function<int()> DeclareModels(Arguments& arguments) {
  const auto options = std::make_shared<Options>();
  arguments.Positional(
      "MODEL", options->model,
      "config.json, job file, HyperParallel file, or preset; nothing lists presets", false);
  DeclareCommon(arguments, options->common);
  return [options] { return options->model.empty() ? ShowPresets(*options) : ShowOne(*options); };
}

}  // namespace restow::cli
