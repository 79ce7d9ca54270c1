// Model FLOPs of a step, for MFU only. Source: time-model.md section 3: 6 FLOPs per token and
// parameter of a product (4 where the weight does not learn), attention at its causal half, windows
// respected, recompute not counted; the embedding look-up is no product.
#include "plan/time/attention.h"
#include "plan/time/time.h"
#include "plan/time/trained.h"

namespace restow::plan {
namespace {

double FeedForwardWeights(const LayerKind& kind) {
  const FeedForward& ffn = kind.feed_forward;
  const double per_width = (ffn.gated ? 3.0 : 2.0) * kind.hidden;
  if (!ffn.experts) return per_width * ffn.width;
  const Experts& experts = *ffn.experts;
  const double router = static_cast<double>(kind.hidden) * experts.count;
  return per_width *
             (static_cast<double>(experts.per_token) * experts.width + experts.shared_width) +
         router + (experts.shared_gate ? kind.hidden : 0);
}

double AttentionWeights(const LayerKind& kind) {
  const Attention& a = kind.attention;
  const double h = kind.hidden, heads = a.heads;
  if (a.latent) {
    const LatentAttention& l = *a.latent;
    const double query = heads * a.QueryWidth();
    const double queries = l.q_rank > 0 ? l.q_rank * (h + query) : h * query;
    return queries + h * (l.kv_rank + l.rope_dim) +
           static_cast<double>(l.kv_rank) * heads * (l.nope_dim + l.value_dim) +
           heads * l.value_dim * h;
  }
  return h * (heads * a.QueryWidth() * (a.output_gate ? 2 : 1) +
              a.kv_heads * (a.QueryWidth() + a.ValueWidth()) + heads * a.ValueWidth());
}

// Forward and backward, one token. Backward has the input gradient and, where it learns, the
// weight's; attention has both (its two factors are activations).
double LayerFlops(const LayerKind& kind, double sequence, Trained trained) {
  const double passes = trained == Trained::kFully ? 3 : trained == Trained::kInputOnly ? 2 : 1;
  const double weights = AttentionWeights(kind) + FeedForwardWeights(kind);
  const Attention& a = kind.attention;
  const double scores = 2.0 * MeanSpan(a, sequence) * a.heads * (a.QueryWidth() + a.ValueWidth());
  return 2 * passes * weights + (trained == Trained::kNot ? 1 : 3) * scores;
}

double StackFlops(const LayerStack& stack, double sequence, const std::vector<Trained>& trained) {
  double flops = 0;
  for (const int kind : stack.order) {
    const auto index = static_cast<std::size_t>(kind);
    flops += LayerFlops(stack.kinds[index], sequence, trained[index]);
  }
  return flops;
}

// Layers and the output layer, one token.
double LanguageFlops(const Job& job) {
  const Model& model = job.model;
  std::vector<Trained> trained;
  for (std::size_t i = 0; i < model.stack.kinds.size(); ++i) {
    trained.push_back(TrainedLayers(job, static_cast<int>(i)));
  }
  const double head = (TrainedHead(job) ? 6.0 : 4.0) * model.hidden() * model.vocab;
  double flops = StackFlops(model.stack, job.training.sequence, trained) + head;
  if (model.mtp_layers > 0) {
    const auto kind = static_cast<std::size_t>(model.mtp_kind);
    const double joined = 12.0 * model.hidden() * model.hidden();  // 2h to h
    flops +=
        model.mtp_layers *
        (LayerFlops(model.stack.kinds[kind], job.training.sequence, trained[kind]) + head + joined);
  }
  return flops;
}

// All towers and the projector, one sequence of the language model.
double TowerFlops(const Job& job) {
  double flops = 0;
  for (std::size_t t = 0; t < job.model.towers.size(); ++t) {
    const Tower& tower = job.model.towers[t];
    const double tokens =
        job.training.visual_tokens > 0 ? job.training.visual_tokens : tower.patches;
    const std::vector<Trained> trained(tower.stack.kinds.size(),
                                       TrainedTower(job, static_cast<int>(t)));
    flops += tokens * StackFlops(tower.stack, tokens, trained) +
             6.0 * static_cast<double>(job.model.projector_parameters) * tokens / tower.merge;
  }
  return flops;
}

}  // namespace

Flops ModelFlops(const Job& job) {
  const double sequence = LanguageFlops(job) * job.training.sequence + TowerFlops(job);
  return Flops(sequence * job.training.global_batch / job.cluster.devices);
}

}  // namespace restow::plan
