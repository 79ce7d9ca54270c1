// The readers of models, for the readers of files that hold one.
#pragma once

#include <string>

#include "restow/io/document.h"
#include "restow/schema/model.h"

namespace restow {

// The fields of `restow.model/1`. `name` names the model when the map does not.
Model ReadInlineModel(const Node& node, const std::string& name);

}  // namespace restow
