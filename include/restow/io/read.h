// Files into jobs and models: what the command and the bindings call.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "restow/io/document.h"
#include "restow/schema/activation_plan.h"
#include "restow/schema/job.h"

namespace restow {

struct ReadOptions {
  bool strict = false;  // a field that no reader knows is refused instead of listed
  // "dimension=value" from the command line; they replace what the file's `search` says.
  std::vector<std::string> dimensions;
  // Leave impossible degrees and batches to the planner's rules, which name themselves and the
  // nearest change: for a candidate that is to be explained.
  bool rules_decide = false;
  std::optional<std::string> margin;            // a size
  std::optional<std::string> calibration_path;  // replaces the shipped constants
};

// A job file, a HyperParallel trainer YAML or search configuration, or "-" (standard input).
// Which it is follows from its keys. The result has passed Validate.
Job ReadJob(const std::string& path, const ReadOptions& options);
Job ReadJob(const Node& document, const std::string& base_folder, const ReadOptions& options);

// What no reader knew, of the job and of its model.
std::vector<FieldNote> UnknownFields(const Job& job);

// True when the document is one of HyperParallel's own files (io/hyperparallel.h).
bool IsHyperParallel(const Node& document);

// Anything that holds a model: Hugging Face config.json, `restow.model/1`, a preset's name, a job
// file, a HyperParallel file. Errors: kUnsupported naming the family when it cannot be priced.
// `strict`: a field that no reader knows is refused instead of listed.
Model ReadModel(const std::string& path_or_preset, bool strict = false);
// Hugging Face's config.json. `name` names the model when the file does not.
Model ReadHuggingFace(const Node& config, const std::string& name);

// One dimension argument "tp=2,4,8" onto a space; also used for `price` and `explain`.
// Errors: kUsage for an unknown dimension, kBadInput for a value, both quoting the argument.
void ApplyDimension(std::string_view argument, SearchSpace& space);

// `over` behind `dimensions`, less those of `dimensions` that `over` states again.
std::vector<std::string> MergeDimensions(std::vector<std::string> dimensions,
                                         const std::vector<std::string>& over);

// A candidate as `compare` names it: a rank of the plan, what runs today, or its dimensions.
struct CandidateName {
  int rank = 0;  // 0: no rank
  bool current = false;
  std::vector<std::string> dimensions;
  std::string text;  // "rank 1", else as the user wrote it
};
// "1", "current" or "tp=8 pp=4 recompute=full". Errors: kUsage.
CandidateName ReadCandidateName(const std::string& text);

// A statement of the recompute dimension (docs/planner.md, "Recompute as a dimension"): off,
// selective, full, a list of them, or auto. `what` names it in messages: "search.recompute".
Dimension<Recompute> ReadRecomputeDimension(const Node& node, const std::string& what);
Dimension<Recompute> ReadRecomputeDimension(std::string_view argument, const std::string& what);
// Where exactly one mode is wanted. Null (or nothing) is off; lists, auto, true and unknown names
// are refused with a message that offers single modes only.
Recompute ReadSingleRecompute(const Node* node, const std::string& what);

// A calibration file's text. Errors: kBadInput with position.
Calibration ReadCalibration(const Node& document);
// A user's: every constant that the shipped one has must be there, or a price would need one that is
// not. Errors: kBadInput naming the first that is missing.
Calibration ReadWholeCalibration(const Node& document);
Calibration ReadCalibrationFile(const std::string& path);
// What a calibration written to `path` is called in reports: the file's name without its suffix.
std::string CalibrationId(const std::string& path);

// The text of a `restow.activation-plan/1`; `name` is what messages call it. Errors: kBadInput with
// position for another schema or number, an unknown mode or key, a missing or impossible value.
ActivationPlan ReadActivationPlan(const std::string& text, const std::string& name);

// A module and the region of the plan, by index, that it is run under.
struct ModuleMatch {
  std::string module;
  int region = 0;
};
// What the plan's regions make of a model's modules, in the order of `module_names`. The first
// region whose pattern matches takes a module; modules that none matches are left out.
// Errors: kBadInput for a pattern that matches no module, naming modules near it, and for a module
// that lies inside another when neither is kept.
std::vector<ModuleMatch> MatchModules(const ActivationPlan& plan,
                                      const std::vector<std::string>& module_names);

}  // namespace restow
