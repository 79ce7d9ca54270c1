#include "plan/time/layer.h"

#include <algorithm>

#include "restow/base/check.h"

namespace restow::plan {
namespace {

Seconds& Term(TimeTerms& terms, TimeTerm term) { return terms[static_cast<std::size_t>(term)]; }

double TowerSequence(const Job& job, const Tower& tower) {
  return job.training.visual_tokens > 0 ? job.training.visual_tokens : tower.patches;
}

bool DividesTower(const LayerKind& kind, int tp) {
  return kind.attention.heads % tp == 0 && kind.feed_forward.width % tp == 0;
}

Trained TrainedOf(const Machine::Constants& k, const LayerKind* kind) {
  if (k.any_frozen) {
    for (const auto& [known, trained] : k.trained) {
      if (known == kind) return trained;
    }
    RESTOW_CHECK(false && "the kind is of another model than the machine's job");
  }
  return Trained::kFully;
}

void AddForward(const LayerPieces& p, TimeTerms& t) {
  Term(t, TimeTerm::kMatmul) = Seconds(p.products.forward + p.mlp.forward);
  Term(t, TimeTerm::kAttention) = Seconds(p.attention.forward);
  Term(t, TimeTerm::kElementwise) = Seconds(p.norms.forward + p.activation.forward);
  Term(t, TimeTerm::kRouting) = Seconds(p.permute.forward + p.expert_fixed.forward);
  Term(t, TimeTerm::kHost) = Seconds(p.host.forward);
  Term(t, TimeTerm::kTensorParallel) = Seconds(p.tensor.forward);
  Term(t, TimeTerm::kContextParallel) = Seconds(p.context.forward);
  Term(t, TimeTerm::kExpertParallel) = Seconds(p.expert.forward);
}

void AddBackward(const LayerPieces& p, TimeTerms& t) {
  Term(t, TimeTerm::kMatmul) = Seconds(p.products.backward + p.mlp.backward);
  Term(t, TimeTerm::kAttention) = Seconds(p.attention.backward);
  Term(t, TimeTerm::kElementwise) = Seconds(p.norms.backward + p.activation.backward);
  Term(t, TimeTerm::kRouting) = Seconds(p.permute.backward + p.expert_fixed.backward);
  Term(t, TimeTerm::kHost) = Seconds(p.host.backward);
  Term(t, TimeTerm::kTensorParallel) = Seconds(p.tensor.backward);
  Term(t, TimeTerm::kContextParallel) = Seconds(p.context.backward);
  Term(t, TimeTerm::kExpertParallel) = Seconds(p.expert.backward);
}

Seconds Sum(const TimeTerms& terms) {
  Seconds sum;
  for (const Seconds term : terms) sum += term;
  return sum;
}

// A tower is one term of a report, whatever its parts.
void Collapse(TimeTerms& terms) {
  const Seconds sum = Sum(terms);
  terms = {};
  Term(terms, TimeTerm::kTower) = sum;
}

}  // namespace

Pass LayerPieces::work() const {
  return products + mlp + attention + norms + activation + permute + expert_fixed + tensor +
         context + expert;
}

LayerContext ContextOf(const Machine& machine, const KindTable::Entry& entry,
                       const MicroShape& shape) {
  const Machine::Constants& k = machine.constants();
  const Job& job = machine.job();
  const Attention& attention = entry.kind->attention;
  LayerContext x{k, job, *entry.kind, shape};
  x.tower = entry.tower >= 0;
  x.trained = TrainedOf(k, entry.kind);
  x.tp = x.tower && !DividesTower(*entry.kind, shape.tp) ? 1 : shape.tp;
  x.sequence = x.tower ? TowerSequence(job, job.model.towers[static_cast<std::size_t>(entry.tower)])
                       : job.training.sequence;
  x.tokens = x.sequence * shape.micro_batch / (x.tower ? 1 : shape.cp);
  x.own = shape.sp ? x.tokens / x.tp : x.tokens;
  x.heads = static_cast<double>(attention.heads) / x.tp;
  const int kv = attention.latent ? attention.heads : attention.kv_heads;
  x.kv_heads = std::max(1.0, static_cast<double>(kv) / x.tp);
  x.query_width = attention.QueryWidth();
  x.value_width = attention.ValueWidth();
  return x;
}

Pass AdapterProduct(const LayerContext& x, const char* target, double m, double n, double k) {
  const std::optional<Lora>& lora = x.job.training.lora;
  if (!lora || x.tower) return {};
  const std::vector<std::string>& targets = lora->targets;
  const bool meant =
      targets.empty() || std::find(targets.begin(), targets.end(), target) != targets.end();
  if (!meant) return {};
  const double rank = lora->rank;
  return WeightProduct(x.k, x.k.wide, {m, rank, k}, true) +
         WeightProduct(x.k, x.k.wide, {m, n, rank}, true);
}

namespace {

// What a layer costs whatever is recomputed.
LayerPieces PiecesOf(const LayerContext& x) {
  LayerPieces p;
  AddAttentionBlock(x, p);
  if (x.kind.feed_forward.experts) {
    AddExperts(x, p);
  } else {
    AddDenseFeedForward(x, p);
  }
  AddModelParallel(x, p);
  return p;
}

LayerSeconds UnderMode(const LayerContext& x, LayerPieces p, Recompute mode) {
  LayerSeconds out;
  AddHostFloor(x, mode, p);

  AddForward(p, out.forward);
  Pass tensor = p.tensor_hidden, context = p.context_hidden, expert = p.expert_hidden;
  if (x.trained == Trained::kNot) {
    tensor.backward = context.backward = expert.backward = 0;
  } else {
    AddBackward(p, out.backward);
    out.recompute = Seconds(RerunSeconds(x, p, mode));
  }
  Term(out.hidden, TimeTerm::kTensorParallel) = Seconds(tensor.sum());
  Term(out.hidden, TimeTerm::kContextParallel) = Seconds(context.sum());
  Term(out.hidden, TimeTerm::kExpertParallel) = Seconds(expert.sum());
  if (x.tower) {
    Collapse(out.forward);
    Collapse(out.backward);
    Collapse(out.hidden);
  }
  out.forward_total = Sum(out.forward);
  out.backward_total = Sum(out.backward) + out.recompute;
  return out;
}

}  // namespace

LayerSeconds PriceLayerSeconds(const Machine& machine, const KindTable::Entry& kind,
                               const MicroShape& shape, Recompute mode) {
  const LayerContext x = ContextOf(machine, kind, shape);
  return x.tokens > 0 ? UnderMode(x, PiecesOf(x), mode) : LayerSeconds{};
}

LayerModes PriceLayerModes(const Machine& machine, const KindTable::Entry& kind,
                           const MicroShape& shape) {
  const LayerContext x = ContextOf(machine, kind, shape);
  LayerModes modes;
  if (x.tokens <= 0) return modes;
  const LayerPieces pieces = PiecesOf(x);
  for (std::size_t mode = 0; mode < kRecomputeModes; ++mode) {
    modes[mode] = UnderMode(x, pieces, static_cast<Recompute>(mode));
  }
  return modes;
}

}  // namespace restow::plan
