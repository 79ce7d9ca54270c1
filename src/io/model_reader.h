// Models inside other documents, and the seam to the readers of job files. Private to io.
#pragma once

#include <string>

#include "restow/io/document.h"
#include "restow/schema/model.h"

namespace restow {

// Inline fields: those of `restow.model/1`, as in a job file's `model` map or a preset. Required:
// layers, hidden, heads, ffn, vocab. What is not known is listed in `unknown`; what only reports
// state (parameters, ignored, ...) is skipped. `name` names the model when the fields do not.
// Errors: kBadInput with position.
Model ReadInlineModel(const Node& fields, const std::string& name);

// True when the document is a model of `restow.model/1`.
bool IsInlineModel(const Node& document);

// The model that a job or HyperParallel file trains. Relative paths in it start at `base_folder`.
// Errors: kUnsupported when the document is neither.
Model ReadModelOfJob(const Node& document, const std::string& base_folder);

// Refuses sizes whose product is beyond any model (more than 10^15 parameters), before they are
// counted exactly. Errors: kBadInput.
void RefuseAbsurd(const Model& model, const SourcePosition& where);

}  // namespace restow
