#include "restow/base/error.h"
#include "restow/swap/tier.h"

namespace restow::swap {

std::shared_ptr<Tier> OpenFileTier(const std::string& dir, std::int64_t byte_cap) {
  static_cast<void>(byte_cap);
  ThrowUnsupported("'" + dir + "': this build has no file tier; leave the folder out");
}

}  // namespace restow::swap
