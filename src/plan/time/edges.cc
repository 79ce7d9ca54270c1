// What stands before the first layer and behind the last: embedding, projector, output layer, loss.
#include "plan/time/matmul.h"
#include "plan/time/time.h"

namespace restow::plan {
namespace {

// Tower tokens of one micro-batch after merging.
double MergedTokens(const Job& job, const Tower& tower, int micro_batch) {
  const int tokens = job.training.visual_tokens > 0 ? job.training.visual_tokens : tower.patches;
  return static_cast<double>(tokens) / tower.merge * micro_batch;
}

// Forward and backward of the projection between towers and language model, as one product that
// has its parameters (6 FLOPs each and token).
double ProjectorSeconds(const Machine& machine, const MicroShape& shape) {
  const Job& job = machine.job();
  if (job.model.projector_parameters <= 0) return 0.0;
  double tokens = 0;
  for (const Tower& tower : job.model.towers) tokens += MergedTokens(job, tower, shape.micro_batch);
  const double h = job.model.hidden();
  const double inner = static_cast<double>(job.model.projector_parameters) / h;
  const Machine::Constants& k = machine.constants();
  return WeightProduct(k, k.wide, {tokens, h, inner}, true).sum();
}

}  // namespace

EdgeSeconds PriceEdges(const Machine& machine, const MicroShape& shape) {
  const Machine::Constants& k = machine.constants();
  const Job& job = machine.job();
  const double tokens = static_cast<double>(job.training.sequence) * shape.micro_batch / shape.cp;
  const double h = job.model.hidden();
  const double vocab = static_cast<double>(job.model.vocab) / shape.tp;
  // A row is read, written and (backward) added; the same each way.
  const double embedding = 2 * ElementwiseSeconds(k, tokens * h * k.element * 3);
  const double loss = 2 * ElementwiseSeconds(k, tokens * vocab * k.loss_bytes);
  const double head = WeightProduct(k, k.wide, {tokens, vocab, h}, k.head_trained).sum();
  const double own = shape.sp ? tokens / shape.tp : tokens;
  const double join = job.model.mtp_layers > 0
                          ? WeightProduct(k, k.compute, {own, h, 2 * h}, k.head_trained).sum()
                          : 0.0;
  return {Seconds(embedding + ProjectorSeconds(machine, shape)), Seconds(head + loss),
          Seconds(join)};
}

}  // namespace restow::plan
