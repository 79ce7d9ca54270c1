#include "io/hyperparallel.h"
#include "restow/base/error.h"
#include "restow/io/read.h"
namespace restow {
bool IsHyperParallel(const Node&) { return false; }
Job ReadHyperParallel(const Node&, const std::string&, std::string&) { return {}; }
Model ReadHyperParallelModel(const Node&, const std::string&) { return {}; }
}
