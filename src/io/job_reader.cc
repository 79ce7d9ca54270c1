// Job files, and the fork to HyperParallel's own.
#include "io/job_reader.h"

#include <fmt/format.h>

#include <set>

#include "io/cluster_reader.h"
#include "io/dimensions.h"
#include "io/fields.h"
#include "io/hyperparallel.h"
#include "io/model_of_job.h"
#include "io/training_reader.h"
#include "restow/base/error.h"
#include "restow/base/text.h"
#include "restow/base/units.h"
#include "restow/io/presets.h"

namespace restow {
namespace {

bool IsModelConfig(const Node& document) {
  return document.is_map() && document.Find("model") == nullptr &&
         (document.Find("model_type") != nullptr || document.Find("architectures") != nullptr);
}

Job ReadOwnJob(const Node& document, const std::string& base_folder, std::string& read) {
  Members fields(document);
  Job job;
  if (const Node* name = fields.Take("name")) job.name = name->AsString();
  const Node& model = fields.Need("model", "state {hf: PATH}, {preset: NAME} or the fields");
  const Node& cluster = fields.Need("cluster", "state {device: NAME, devices: N}");
  const Node& training = fields.Need("training", "state {sequence: N, global_batch: N}");
  const Node* current = fields.Take("current");
  const Node* search = fields.Take("search");
  for (const char* name : {"granularity", "swap"}) {
    if (const Node* n = fields.Take(name)) ReadDimensionInto(name, *n, job.search);
  }
  fields.RefuseRest();
  ModelRead model_read = ReadModelSection(model, base_folder);
  job.model = std::move(model_read.model);
  read += model_read.read;
  job.cluster = ReadCluster(cluster);
  job.training = ReadTraining(training);
  if (current != nullptr) job.current = ReadCurrent(*current, job.model.stack.layers());
  if (search != nullptr) job.search = ReadSearch(*search);
  NotePlaces(document, job.where);
  return job;
}

// A field nobody knows is listed; under --strict it is refused.
void HoldStrict(const Job& job) {
  for (const std::vector<FieldNote>* notes : {&job.unknown, &job.model.unknown}) {
    if (notes->empty()) continue;
    const FieldNote& note = notes->front();
    ThrowBadInput(fmt::format("unknown field '{}' ({} in all); without --strict it is listed and "
                              "left out of the price",
                              note.path, notes->size()),
                  job.At(note.path));
  }
}

}  // namespace

SearchSpace ReadSearch(const Node& node) {
  Members fields(node);
  SearchSpace space;
  for (const std::string& name : DimensionNames()) {
    if (const Node* n = fields.Take(name)) ReadDimensionInto(name, *n, space);
  }
  if (const Node* n = fields.Take("margin")) space.margin = ReadSizeOrZero(*n);
  fields.RefuseRest();
  return space;
}

void NotePlaces(const Node& node, std::map<std::string, SourcePosition>& where) {
  where[node.path] = node.where;
  for (const Node& item : node.items) NotePlaces(item, where);
  for (const auto& [key, value] : node.members) NotePlaces(value, where);
}

void ApplyOptions(const ReadOptions& options, SearchSpace& space) {
  std::set<std::string> seen;
  for (const std::string& argument : options.dimensions) {
    ApplyDimension(argument, space);
    const std::string name = Lower(Trim(argument.substr(0, argument.find('='))));
    if (!seen.insert(name).second) ThrowUsage(fmt::format("'{}' is given twice", name));
  }
  if (!options.margin) return;
  try {
    space.margin = ParseBytes(*options.margin);
  } catch (const Error& error) {
    ThrowBadInput(error.message(), {"argument --margin " + *options.margin, 0, 0});
  }
}

std::vector<FieldNote> UnknownFields(const Job& job) {
  std::vector<FieldNote> notes = job.unknown;
  notes.insert(notes.end(), job.model.unknown.begin(), job.model.unknown.end());
  return notes;
}

Job ReadJob(const Node& document, const std::string& base_folder, const ReadOptions& options) {
  if (IsModelConfig(document)) {
    ThrowBadInput("this is a model's config.json, not a job; a job names it: model: {hf: PATH}",
                  document.where);
  }
  document.ExpectMap();
  std::string read = Canonical(document);
  Job job = IsHyperParallel(document) ? ReadHyperParallel(document, base_folder, read)
                                      : ReadOwnJob(document, base_folder, read);
  if (job.name.empty()) job.name = StemOf(document.where.file);
  ApplyOptions(options, job.search);
  if (options.margin) job.where["search.margin"] = {"argument --margin " + *options.margin, 0, 0};
  for (const std::string& argument : options.dimensions) read += "\n" + argument;
  if (options.margin) read += "\n--margin " + *options.margin;
  if (options.calibration_path) {
    const Node calibration = ReadDocument(*options.calibration_path);
    job.calibration = ReadWholeCalibration(calibration);
    read += Canonical(calibration);
  } else {
    job.calibration = DefaultCalibration();
  }
  job.digest = Digest(read);
  if (options.strict) HoldStrict(job);
  Validate(job);
  if (!options.rules_decide) ValidateSearch(job);
  return job;
}

Job ReadJob(const std::string& path, const ReadOptions& options) {
  return ReadJob(ReadDocument(path), path == "-" ? "." : FolderOf(path), options);
}

}  // namespace restow
