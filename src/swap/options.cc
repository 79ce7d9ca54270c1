#include "restow/swap/options.h"

namespace restow::swap {

Options FromPlan(const ActivationPlan& plan) {
  Options options;
  if (plan.window_bytes.value() > 0) options.window = plan.window_bytes;
  if (plan.host_bytes_cap.value() > 0) options.host_cap = plan.host_bytes_cap;
  options.keep_last_region = plan.keep_last_region;
  return options;
}

const char* Sentence(Reason reason) {
  switch (reason) {
    case Reason::kSwapped:
      return "moved to the tier below the device";
    case Reason::kShared:
      return "its storage was saved before; one unit serves both";
    case Reason::kFused:
      return "small; travels in a fused copy";
    case Reason::kWaitsForLaunch:
      return "waits for its group's launch";
    case Reason::kKeptByCaller:
      return "kept: the policy said so";
    case Reason::kKeptSmall:
      return "kept: smaller than min_bytes";
    case Reason::kKeptEmpty:
      return "kept: no bytes";
    case Reason::kKeptLastRegion:
      return "kept: the last region before its backward";
    case Reason::kKeptWindowFull:
      return "kept: the window was full";
    case Reason::kKeptHostFull:
      return "kept: host memory was full or refused";
    case Reason::kKeptDeviceError:
      return "kept: the device refused the copy";
  }
  return "";
}

}  // namespace restow::swap
