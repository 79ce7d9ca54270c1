// A candidate as activation plans for the engine, one per stage.
#include <fmt/format.h>

#include "plan/memory/memory.h"
#include "plan/pipeline/stages.h"
#include "plan/price/candidate.h"
#include "restow/plan/planner.h"

namespace restow {
namespace {

using plan::Context;
using plan::KindTable;

constexpr const char* kPlaceholder = "{layer}";

ActivationMode ModeOf(Recompute mode) {
  switch (mode) {
    case Recompute::kOff:
      return ActivationMode::kKeep;
    case Recompute::kSelective:
      return ActivationMode::kSelective;
    case Recompute::kFull:
      return ActivationMode::kRecompute;
  }
  return ActivationMode::kKeep;
}

std::string ModuleOf(const std::string& pattern, int layer) {
  std::string module = pattern;
  module.replace(module.find(kPlaceholder), std::string(kPlaceholder).size(),
                 std::to_string(layer));
  return module;
}

// Errors: kUnsupported where names of operators cannot say what the candidate keeps.
void SetOperators(const Context& context, const KindTable::Entry& kind, ActivationRegion* region) {
  const plan::OperatorSets sets = plan::SelectiveSets(context.software, kind);
  if (!sets.obstacle.empty()) {
    ThrowUnsupported(
        fmt::format("an activation plan cannot say what this candidate recomputes in '{}': {}; "
                    "export one whose recompute is off or full, as with recompute=full",
                    region->module, sets.obstacle));
  }
  region->save = sets.save;
  // A frozen part saves nothing.
  if (region->save.empty()) region->mode = ActivationMode::kKeep;
}

ActivationRegion RegionOf(const Context& context, const Layout& layout, const std::string& modules,
                          int layer, Recompute mode) {
  const int kind_id = context.job.model.stack.order[static_cast<std::size_t>(layer)];
  const KindTable::Entry& kind = context.kinds.entries[static_cast<std::size_t>(kind_id)];
  const plan::MicroShape shape = plan::LayerShape(layout);
  ActivationRegion region;
  region.module = ModuleOf(modules, layer);
  region.mode = ModeOf(mode);
  if (mode == Recompute::kSelective) SetOperators(context, kind, &region);
  region.predicted_kept = plan::PriceLayerBytes(context.software, kind, shape, mode).saved;
  region.predicted_recompute =
      plan::PriceLayerSeconds(context.machine, kind, shape, mode).recompute;
  return region;
}

}  // namespace

std::vector<ActivationPlan> ExportActivationPlans(const Job& job, const OneCandidate& one,
                                                  const std::string& modules) {
  if (modules.find(kPlaceholder) == std::string::npos) {
    ThrowBadInput(
        fmt::format("the module pattern '{}' lacks {{layer}}; write it like "
                    "'model.layers.{{layer}}'",
                    modules));
  }
  const Context context(job);
  const Layout& layout = one.layout;
  const std::vector<int> counts = plan::LayersPerVirtualStage(job, layout.pp, layout.vpp);
  std::vector<ActivationPlan> plans(static_cast<std::size_t>(layout.pp));
  for (int stage = 0; stage < layout.pp; ++stage) {
    ActivationPlan& of_stage = plans[static_cast<std::size_t>(stage)];
    of_stage.version = kVersion;
    of_stage.job_digest = job.digest;
    of_stage.framework = Name(job.training.framework);
    of_stage.stage = stage;
    of_stage.stages = layout.pp;
  }
  int layer = 0;
  for (int virtual_stage = 0; virtual_stage < layout.pp * layout.vpp; ++virtual_stage) {
    ActivationPlan& of_stage = plans[static_cast<std::size_t>(virtual_stage % layout.pp)];
    for (int i = 0; i < counts[static_cast<std::size_t>(virtual_stage)]; ++i, ++layer) {
      of_stage.regions.push_back(
          RegionOf(context, layout, modules, layer, one.recompute.at(layer)));
    }
  }
  return plans;
}

}  // namespace restow
