#include "plan/time/software.h"

#include "restow/base/error.h"
#include "restow/base/text.h"

namespace restow::plan {
namespace {

// Source: shared research time-model.md, sections 2 and 5. Field order as declared.
const SoftwareProfile kProfiles[] = {
    {.name = "megatron",
     .gradient_bytes = 4,
     .sharded_gradient_bytes = 4,
     .nvidia_experts = true,
     .fused_permute = true,
     .measured_expert_host = true,
     .overlapped_p2p = true,
     .current_scaling = true},
    {.name = "megatron-no-overlap", .gradient_bytes = 4, .sharded_gradient_bytes = 2},
    {.name = "megatron-2021",
     .gradient_bytes = 4,
     .sharded_gradient_bytes = 2,
     .scattered_p2p = true,
     .dropout_softmax = true},
    {.name = "megatron-2022",
     .gradient_bytes = 4,
     .sharded_gradient_bytes = 2,
     .scattered_p2p = true,
     .dropout_softmax = true},
    {.name = "megatron-deepspeed",
     .gradient_bytes = 2,
     .sharded_gradient_bytes = 2,
     .reduce = ReduceStyle::kAllReduce},
    {.name = "deepspeed", .gradient_bytes = 2, .sharded_gradient_bytes = 2},
    {.name = "llm-foundry",
     .gradient_bytes = 2,
     .sharded_gradient_bytes = 2,
     .old_attention = true},
    {.name = "fms-fsdp", .gradient_bytes = 2, .sharded_gradient_bytes = 2, .old_attention = true},
    {.name = "torchtitan",
     .gradient_bytes = 2,
     .sharded_gradient_bytes = 4,
     .sharded_copies = true,
     .compiled = true,
     .eager = "fms-fsdp"},
    {.name = "internlm",
     .gradient_bytes = 2,
     .sharded_gradient_bytes = 2,
     .reduce = ReduceStyle::kBroadcast},
    {.name = "automodel",
     .gradient_bytes = 2,
     .sharded_gradient_bytes = 2,
     .nvidia_experts = true,
     .old_attention = true,
     .sharded_copies = true},
    {.name = "mindspeed", .gradient_bytes = 2, .sharded_gradient_bytes = 2},
    {.name = "hyperparallel",
     .gradient_bytes = 2,
     .sharded_gradient_bytes = 4,
     .sharded_copies = true},
};

const char* ProfileName(const Training& training) {
  switch (training.framework) {
    case Framework::kMegatron:
      return "megatron";
    case Framework::kTorchtitan:
      return "torchtitan";
    case Framework::kTorch:
      return training.options.compile.value_or(false) ? "torchtitan" : "fms-fsdp";
    case Framework::kMindSpeed:
    case Framework::kMindFormers:
      return "mindspeed";
    case Framework::kHyperParallel:
      return "hyperparallel";
    case Framework::kDeepSpeed:
      return "megatron-deepspeed";
  }
  return "megatron";
}

// The entry of the software table that names the release, or "".
std::string EntryOf(const Training& training, const Calibration& calibration) {
  const std::string release = Lower(training.release);
  std::string best;
  for (const auto& [prefix, profile] : calibration.software) {
    if (prefix.size() > best.size() && release.compare(0, prefix.size(), prefix) == 0) {
      best = prefix;
    }
  }
  return best;
}

}  // namespace

const SoftwareProfile& ProfileNamed(const std::string& name) {
  for (const SoftwareProfile& profile : kProfiles) {
    if (name == profile.name) return profile;
  }
  throw Error(ErrorCode::kInternal, "the software profile '" + name + "' is not known");
}

const SoftwareProfile& ProfileOf(const Training& training, const Calibration& calibration) {
  const std::string entry = EntryOf(training, calibration);
  const SoftwareProfile& profile = ProfileNamed(entry.empty() ? std::string(ProfileName(training))
                                                              : calibration.software.at(entry));
  const bool eager = !training.options.compile.value_or(true);
  return eager && profile.eager != nullptr ? ProfileNamed(profile.eager) : profile;
}

double ReleaseFactor(const Training& training, const Calibration& calibration) {
  const std::string entry = EntryOf(training, calibration);
  return entry.empty() ? 1.0 : calibration.Get("release." + entry, 1.0);
}

}  // namespace restow::plan
