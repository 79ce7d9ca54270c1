// Which model a run trains, however its source spells it.
#pragma once

#include <string>

namespace restow::validate {

// "Llama3.1-405B" and "llama3-405b" are one; sizes tell apart what families do not.
std::string FamilyOf(const std::string& model_name);

}  // namespace restow::validate
