// Parts of a job file that HyperParallel's files may hold too.
#pragma once

#include <string>
#include <vector>

#include "restow/io/document.h"
#include "restow/io/read.h"
#include "restow/schema/job.h"

namespace restow {

// `search`: dimensions, recompute and margin. Errors: kBadInput, kUnsupported.
SearchSpace ReadSearch(const Node& node);

// `current`: one value per dimension; recompute one mode, or a list of {layers, mode} in which a
// layer not named runs `off`. `layers` is the model's count.
CurrentStrategy ReadCurrent(const Node& node, int layers);

// Puts every value of a document under its path.
void NotePlaces(const Node& node, std::map<std::string, SourcePosition>& where);

// Dimension arguments and --margin on top of what the file says.
void ApplyOptions(const ReadOptions& options, SearchSpace& space);

}  // namespace restow
