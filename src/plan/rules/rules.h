// What a layout must satisfy. Every rule has a name, and a sentence with the numbers that broke it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "restow/schema/job.h"
#include "restow/schema/report.h"

namespace restow::plan {

// The order in which an enumeration fixes dimensions. A rule stands at the first level at which
// everything it looks at is fixed, so that a search leaves a hopeless branch early.
enum class RuleLevel {
  kTensor,    // tp, sp
  kContext,   // cp, cp_kind
  kExperts,   // ep, etp
  kPipeline,  // pp, dp
  kBatch,     // micro_batch
  kSchedule,  // schedule, vpp
  kState,     // zero, zero_span
};

using Numbers = std::vector<std::pair<std::string, std::int64_t>>;

struct Rule {
  const char* name;
  RuleLevel level;
  bool (*holds)(const Job& job, const Layout& layout);
  std::string (*detail)(const Job& job, const Layout& layout);
  Numbers (*numbers)(const Job& job, const Layout& layout);
};

// All rules, in the order of their levels.
const std::vector<Rule>& Rules();

// The first rule of `level` that the layout breaks, or null. Looks only at dimensions fixed by
// then.
const Rule* FirstBroken(RuleLevel level, const Job& job, const Layout& layout);
// The first broken rule of any level for a whole layout.
std::optional<Refusal> CheckRules(const Job& job, const Layout& layout);

Refusal MakeRefusal(const Rule& rule, const Job& job, const Layout& layout);

// The rule of memory, which is checked after pricing.
inline constexpr const char* kMemoryRule = "memory";

}  // namespace restow::plan
