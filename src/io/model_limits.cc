// Sizes that are each possible and together absurd.
#include <fmt/format.h>

#include "io/model_reader.h"

namespace restow {
namespace {

constexpr double kMostParameters = 1e15;

// An upper estimate in floating point, where nothing overflows.
double Estimate(const LayerKind& kind) {
  const double hidden = kind.hidden;
  const Attention& attention = kind.attention;
  const double head = attention.head_dim + attention.QueryWidth() + attention.ValueWidth();
  double n = 4 * hidden * (attention.heads + attention.kv_heads) * head;
  if (attention.latent) {
    const LatentAttention& latent = *attention.latent;
    n += (static_cast<double>(latent.q_rank) + latent.kv_rank) *
         (hidden + 2 * attention.heads * head);
  }
  n += 3 * hidden * kind.feed_forward.width;
  if (const auto& experts = kind.feed_forward.experts) {
    n += 3 * hidden *
         (static_cast<double>(experts->count) * experts->width + experts->shared_width +
          experts->count);
  }
  return n + static_cast<double>(kind.extra_parameters);
}

double Estimate(const LayerStack& stack) {
  double n = 0;
  for (const int kind : stack.order) n += Estimate(stack.kinds[static_cast<std::size_t>(kind)]);
  return n;
}

}  // namespace

void RefuseAbsurd(const Model& model, const SourcePosition& where) {
  const double hidden = model.hidden();
  double n = Estimate(model.stack) + hidden * (2.0 * model.vocab + model.positions) +
             static_cast<double>(model.other_parameters) +
             static_cast<double>(model.projector_parameters);
  if (model.mtp_layers > 0) {
    const LayerKind& kind = model.stack.kinds[static_cast<std::size_t>(model.mtp_kind)];
    n += model.mtp_layers * (Estimate(kind) + 2 * hidden * hidden);
  }
  for (const Tower& tower : model.towers) {
    n += Estimate(tower.stack) + static_cast<double>(tower.other_parameters);
  }
  if (n > kMostParameters) {
    ThrowBadInput(fmt::format("the sizes stated make a model of about {:.1e} parameters; at most "
                              "{:.0e} are read",
                              n, kMostParameters),
                  where);
  }
}

}  // namespace restow
