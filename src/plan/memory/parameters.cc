// Parameters one rank holds: of a layer, of a stage.
#include <algorithm>

#include "plan/frozen.h"
#include "plan/memory/dims.h"
#include "plan/memory/memory.h"

namespace restow::plan {
namespace {

std::int64_t Elements(const WeightShape& w) { return w.out * w.in; }

// Per rank; down-projections of latent attention are whole on every tp rank (Megatron-LM).
void AppendAttention(const Attention& attention, std::int64_t hidden, int tp,
                     std::vector<WeightShape>* shapes) {
  const std::int64_t heads = attention.heads;
  const std::int64_t output = heads * attention.ValueWidth() / tp;
  if (attention.latent) {
    const LatentAttention& latent = *attention.latent;
    const std::int64_t query = heads * attention.QueryWidth() / tp;
    if (latent.q_rank > 0) {
      shapes->push_back({latent.q_rank, hidden});
      shapes->push_back({query, latent.q_rank});
    } else {
      shapes->push_back({query, hidden});
    }
    shapes->push_back({latent.kv_rank + latent.rope_dim, hidden});
    shapes->push_back({heads * (latent.nope_dim + latent.value_dim) / tp, latent.kv_rank});
  } else {
    const std::int64_t kv = std::max(1, attention.kv_heads / tp);
    const std::int64_t query = heads / tp * attention.head_dim * (attention.output_gate ? 2 : 1);
    shapes->push_back({query + kv * (attention.head_dim + attention.ValueWidth()), hidden});
  }
  shapes->push_back({hidden, output});
}

void AppendMlp(std::int64_t hidden, std::int64_t width, bool gated, int tp, bool grouped,
               std::vector<WeightShape>* shapes) {
  shapes->push_back({(gated ? 2 : 1) * width / tp, hidden, grouped});
  shapes->push_back({hidden, width / tp, grouped});
}

struct Parts {
  std::int64_t attention = 0, feed_forward = 0, experts = 0, norms = 0;
};

std::int64_t AttentionParameters(const LayerKind& kind, int tp) {
  const Attention& attention = kind.attention;
  std::vector<WeightShape> shapes;
  AppendAttention(attention, kind.hidden, tp, &shapes);
  std::int64_t n = 0;
  for (const WeightShape& w : shapes) n += Elements(w);
  if (attention.latent) {
    n += attention.latent->q_rank + attention.latent->kv_rank;
  } else if (attention.qk_norm) {
    n += 2 * attention.head_dim;
  }
  if (attention.qkv_bias && !attention.latent) n += shapes.front().out;
  if (attention.output_bias) n += kind.hidden;
  return n;
}

std::int64_t MlpParameters(std::int64_t hidden, std::int64_t width, bool gated, bool bias, int tp) {
  const std::int64_t first = (gated ? 2 : 1) * width / tp;
  return first * hidden + hidden * (width / tp) + (bias ? first + hidden : 0);
}

Parts PartsOf(const LayerKind& kind, int tp, int ep, int etp) {
  const FeedForward& ffn = kind.feed_forward;
  Parts n;
  n.attention = AttentionParameters(kind, tp);
  n.norms = static_cast<std::int64_t>(kind.norms) * kind.hidden * (kind.norm_bias ? 2 : 1) +
            kind.extra_parameters;
  if (!ffn.experts) {
    n.feed_forward = MlpParameters(kind.hidden, ffn.width, ffn.gated, ffn.bias, tp);
    return n;
  }
  const Experts& experts = *ffn.experts;
  n.experts = experts.count / ep *
              MlpParameters(kind.hidden, experts.width, ffn.gated, experts.expert_bias, etp);
  n.feed_forward = static_cast<std::int64_t>(experts.count) * kind.hidden +
                   (experts.router_bias ? experts.count : 0);
  if (experts.shared_width > 0) {
    n.feed_forward += MlpParameters(kind.hidden, experts.shared_width, ffn.gated, ffn.bias, tp);
    if (experts.shared_gate) n.feed_forward += kind.hidden;
  }
  return n;
}

// rank·(in + out) per target, split over tp as the product itself is: its first factor is whole on
// every rank where the product divides its outputs, the second where it divides its inputs.
RankParameters Adapters(const Training& training, const LayerKind& kind, int tp, int ep, int etp) {
  RankParameters n;
  if (!training.lora) return n;
  const std::int64_t rank = training.lora->rank, hidden = kind.hidden;
  const Attention& a = kind.attention;
  const auto add = [&](const char* target, std::int64_t in, std::int64_t out) {
    if (HasAdapter(training, target)) n.dense += rank * (in + out);
  };
  const std::int64_t query = static_cast<std::int64_t>(a.heads) * a.QueryWidth() / tp;
  if (a.latent) {
    const LatentAttention& latent = *a.latent;
    const bool direct = latent.q_rank == 0;
    add(direct ? "q_proj" : "q_a_proj", hidden, direct ? query : latent.q_rank);
    if (!direct) add("q_b_proj", latent.q_rank, query);
    add("kv_a_proj_with_mqa", hidden, latent.kv_rank + latent.rope_dim);
    add("kv_b_proj", latent.kv_rank,
        static_cast<std::int64_t>(a.heads) * (latent.nope_dim + latent.value_dim) / tp);
  } else {
    const std::int64_t kv = std::max(1, a.kv_heads / tp);
    add("q_proj", hidden, query);
    add("k_proj", hidden, kv * a.QueryWidth());
    add("v_proj", hidden, kv * a.ValueWidth());
  }
  add("o_proj", static_cast<std::int64_t>(a.heads) * a.ValueWidth() / tp, hidden);
  const FeedForward& ffn = kind.feed_forward;
  const std::int64_t width = ffn.experts ? ffn.experts->shared_width / tp : ffn.width / tp;
  const std::int64_t expert = ffn.experts ? ffn.experts->width / etp : 0;
  const std::int64_t local = ffn.experts ? ffn.experts->count / ep : 0;
  for (const char* target : {"gate_proj", "up_proj", "down_proj"}) {
    if (width > 0) add(target, hidden, width);
    if (HasAdapter(training, target)) n.expert += local * rank * (hidden + expert);
  }
  return n;
}

std::int64_t TableRows(const MemorySoftware& s, int tp) {
  const std::int64_t multiple = static_cast<std::int64_t>(s.vocabulary_unit) * tp;
  return (s.job().model.vocab + multiple - 1) / multiple * multiple / tp;
}

void AddDense(const Training& training, const char* module, std::int64_t n, RankParameters* to) {
  (IsFrozen(training, module) ? to->frozen_dense : to->dense) += n;
}

class StageCounter {
 public:
  StageCounter(const MemorySoftware& s, const KindTable& kinds, int tp, int ep, int etp, int pp)
      : s_(s), job_(s.job()), kinds_(kinds), tp_(tp), ep_(ep), etp_(etp), pp_(pp) {}

  void AddChunk(const Chunk& chunk) {
    std::vector<int> next(job_.model.towers.size() + 1, 0);
    next[0] = chunk.first_layer;
    for (const LayerRun& run : chunk.runs) {
      const KindTable::Entry& kind = kinds_.entries[static_cast<std::size_t>(run.kind)];
      int& layer = next[static_cast<std::size_t>(kind.tower + 1)];
      AddLayers(kind, layer, run.count);
      layer += run.count;
    }
    if (chunk.embedding) AddFirst();
    if (chunk.head) AddLast();
  }

  StageParameters Finish() {
    std::sort(p_.shapes.begin(), p_.shapes.end());
    p_.shapes.erase(std::unique(p_.shapes.begin(), p_.shapes.end()), p_.shapes.end());
    p_.largest_weight = std::max(p_.embedding, p_.output_table);
    for (const WeightShape& w : p_.shapes) {
      (w.grouped ? p_.grouped_placeholders : p_.placeholders) += Elements(w);
      if (!w.grouped) p_.largest_weight = std::max(p_.largest_weight, Elements(w));
    }
    return p_;
  }

 private:
  void AddShapes(const KindTable::Entry& kind) {
    for (const WeightShape& w : LayerWeightShapes(kind, tp_, etp_)) {
      p_.shapes.push_back(w);
      if (!w.grouped) continue;
      const std::int64_t local = kind.kind->feed_forward.experts->count / ep_;
      p_.largest_expert_weight = std::max(p_.largest_expert_weight, local * Elements(w));
    }
  }

  void AddLayers(const KindTable::Entry& kind, int layer, int count) {
    if (count == 0) return;
    AddShapes(kind);
    const bool alike = job_.training.frozen.empty() || job_.training.lora;
    RankParameters one = LayerParametersOnRank(s_, kind, layer, tp_, ep_, etp_);
    for (int i = 0; i < count; ++i) {
      if (i > 0 && !alike) one = LayerParametersOnRank(s_, kind, layer + i, tp_, ep_, etp_);
      p_.total += one;
    }
    p_.largest_layer = std::max(p_.largest_layer, one.dense + one.frozen_dense);
    p_.largest_expert_layer = std::max(p_.largest_expert_layer, one.expert + one.frozen_expert);
    if (kind.kind->feed_forward.experts) p_.has_experts = true;
  }

  void AddFirst() {
    const Model& model = job_.model;
    p_.first = true;
    p_.embedding = TableRows(s_, tp_) * model.hidden();
    AddDense(job_.training, "embed_tokens",
             p_.embedding + static_cast<std::int64_t>(model.positions) * model.hidden() +
                 model.other_parameters,
             &p_.total);
    AddDense(job_.training, "projector", model.projector_parameters, &p_.total);
    for (const Tower& tower : model.towers) {
      AddDense(job_.training, (tower.name + ".embeddings").c_str(), tower.other_parameters,
               &p_.total);
    }
  }

  void AddLast() {
    const Model& model = job_.model;
    const std::int64_t table = TableRows(s_, tp_) * model.hidden();
    p_.last = true;
    p_.output_table = table;
    AddDense(job_.training, "norm", model.hidden() * (model.final_norm_bias ? 2 : 1), &p_.total);
    if (!model.tied) {
      p_.head = table + (model.head_bias ? TableRows(s_, tp_) : 0);
      AddDense(job_.training, "lm_head", p_.head, &p_.total);
    }
    // Tied tables and multi-token prediction want the embedding here too.
    if (pp_ > 1 && (model.tied || model.mtp_layers > 0)) {
      p_.embedding = table;
      AddDense(job_.training, "embed_tokens", table, &p_.total);
    }
    if (model.mtp_layers > 0) AddMtp();
  }

  void AddMtp() {
    const Model& model = job_.model;
    const std::int64_t hidden = model.hidden();
    const KindTable::Entry& kind = kinds_.entries[static_cast<std::size_t>(model.mtp_kind)];
    RankParameters layer = LayerParametersOnRank(s_, kind, -1, tp_, ep_, etp_);
    layer.dense += 2 * hidden * hidden / tp_ + 3 * hidden;  // projection of both inputs, norms
    if (IsFrozen(job_.training, "mtp") && !job_.training.lora) {
      layer = {0, 0, layer.dense + layer.frozen_dense, layer.expert + layer.frozen_expert};
    }
    for (int i = 0; i < model.mtp_layers; ++i) p_.total += layer;
    AddShapes(kind);
    p_.shapes.push_back({hidden / tp_, 2 * hidden});
  }

  const MemorySoftware& s_;
  const Job& job_;
  const KindTable& kinds_;
  const int tp_, ep_, etp_, pp_;
  StageParameters p_;
};

}  // namespace

std::vector<WeightShape> LayerWeightShapes(const KindTable::Entry& kind, int tp, int etp) {
  const int split = TensorParallelOf(kind, tp);
  const FeedForward& ffn = kind.kind->feed_forward;
  std::vector<WeightShape> shapes;
  AppendAttention(kind.kind->attention, kind.kind->hidden, split, &shapes);
  if (!ffn.experts) {
    AppendMlp(kind.kind->hidden, ffn.width, ffn.gated, split, false, &shapes);
    return shapes;
  }
  if (ffn.experts->shared_width > 0) {
    AppendMlp(kind.kind->hidden, ffn.experts->shared_width, ffn.gated, split, false, &shapes);
  }
  AppendMlp(kind.kind->hidden, ffn.experts->width, ffn.gated, etp, true, &shapes);
  return shapes;
}

RankParameters LayerParametersOnRank(const MemorySoftware& software, const KindTable::Entry& kind,
                                     int layer, int tp, int ep, int etp) {
  const Job& job = software.job();
  const Training& training = job.training;
  const int split = TensorParallelOf(kind, tp);
  const Parts parts = PartsOf(*kind.kind, split, ep, etp);
  RankParameters n;
  if (!training.lora && (training.frozen.empty() || layer < 0)) {
    n.dense = parts.attention + parts.feed_forward + parts.norms;
    n.expert = parts.experts;
    return n;
  }
  const std::string module = LayerModule(job.model, kind.tower, std::max(layer, 0));
  AddDense(training, (module + ".self_attn").c_str(), parts.attention, &n);
  AddDense(training, (module + ".mlp").c_str(), parts.feed_forward, &n);
  AddDense(training, (module + ".norms").c_str(), parts.norms, &n);
  const bool frozen = IsFrozen(training, module + ".mlp.experts");
  (frozen ? n.frozen_expert : n.expert) += parts.experts;
  if (kind.tower < 0) n += Adapters(training, *kind.kind, split, ep, etp);
  return n;
}

StageParameters PriceStageParameters(const MemorySoftware& software, const KindTable& kinds,
                                     const std::vector<Chunk>& chunks, int tp, int ep, int etp,
                                     int pp) {
  StageCounter counter(software, kinds, tp, ep, etp, pp);
  for (const Chunk& chunk : chunks) counter.AddChunk(chunk);
  return counter.Finish();
}

}  // namespace restow::plan
