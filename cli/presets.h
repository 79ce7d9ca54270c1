// Lists of presets as answers. Private to cli.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace restow::cli {

// `[...]` of documents that are JSON already.
std::string JsonList(const std::vector<std::string>& documents);

}  // namespace restow::cli
