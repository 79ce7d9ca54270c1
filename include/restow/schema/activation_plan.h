// What the engine carries out: per module, whether activations are kept, recomputed or swapped.
// `restow.activation-plan/1`; one per stage, the same bytes on every rank of it.
#pragma once

#include <string>
#include <vector>

#include "restow/base/quantity.h"

namespace restow {

enum class ActivationMode { kKeep, kRecompute, kSelective, kSwap, kSwapRecompute };
const char* Name(ActivationMode mode);

struct ActivationRegion {
  std::string module;  // glob
  ActivationMode mode = ActivationMode::kKeep;
  std::vector<std::string> save, recompute, swap;  // operators
  Bytes min_bytes;
  std::string tier = "host";
  Bytes predicted_kept, predicted_swapped;  // per micro-batch
  Seconds predicted_recompute;              // per micro-batch
};

struct ActivationPlan {
  std::string version;
  std::string job_digest;
  std::string framework;
  int stage = 0;
  int stages = 1;
  ActivationMode default_mode = ActivationMode::kKeep;
  std::vector<ActivationRegion> regions;
  Bytes host_bytes_cap;
  Bytes window_bytes;
  bool keep_last_region = true;
};

}  // namespace restow
