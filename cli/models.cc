// restow models: what was read of a model, or the presets.
#include <fmt/format.h>

#include "cli/common.h"
#include "cli/output.h"
#include "cli/presets.h"
#include "restow/base/text.h"
#include "restow/io/presets.h"
#include "restow/io/write.h"

namespace restow::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string model;
};

void CheckStrict(const Model& model, const Options& options) {
  if (!options.common.strict || model.unknown.empty()) return;
  std::vector<std::string> fields;
  for (const FieldNote& note : model.unknown) fields.push_back(note.path);
  ThrowBadInput("fields that are not known: " + JoinWords(fields) +
                    "; remove them, or read without --strict",
                {options.model, 0, 0});
}

int ShowOne(const Options& options) {
  const Model model = ReadModel(options.model);
  CheckStrict(model, options);
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

void AddModels(CLI::App& app, Commands& commands) {
  CLI::App& sub = *app.add_subcommand("models", "show what is read of a model; list presets");
  const auto options = std::make_shared<Options>();
  sub.add_option("MODEL", options->model,
                 "config.json, job file, HyperParallel file, or preset; nothing lists presets")
      ->type_name("");
  AddCommonOptions(sub, options->common);
  commands.push_back(
      {&sub, [options] { return options->model.empty() ? ShowPresets(*options) : ShowOne(*options); }});
}

}  // namespace restow::cli
