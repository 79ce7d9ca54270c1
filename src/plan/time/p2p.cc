// Activations from stage to stage and gradients back. Source: time-model.md section 2, "P2P".
#include "plan/time/collective.h"
#include "plan/time/time.h"

namespace restow::plan {

ExposedHidden PriceP2p(const Machine& machine, const Layout& layout) {
  if (layout.pp <= 1) return {};
  const Machine::Constants& k = machine.constants();
  const Job& job = machine.job();
  const MicroShape shape = ShapeOf(layout);
  const RingPath path = NeighbourPath(k, PipelineGroup(shape));
  const double tokens =
      static_cast<double>(job.training.sequence) * layout.micro_batch / layout.cp;
  // Without sp every tp rank holds, and sends, the whole tensor unless the software scatters it.
  const double parts = layout.sp || k.software->scattered_p2p ? layout.tp : 1;
  const double hop = tokens * job.model.hidden() * k.element / parts / path.rate + path.fixed;
  const double steady = static_cast<double>(layout.micro_batches) * layout.vpp;
  const double shown = layout.vpp > 1 ? k.p2p_exposed : 1.0;
  return {Seconds(2 * hop * (shown * steady + layout.pp - 1)),
          Seconds(2 * hop * (1 - shown) * steady)};
}

}  // namespace restow::plan
