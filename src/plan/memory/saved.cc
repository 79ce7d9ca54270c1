#include "plan/memory/saved.h"

#include <algorithm>

#include "plan/frozen.h"
#include "plan/memory/memory.h"
#include "plan/memory/working.h"

namespace restow::plan {
namespace {

void AddLatents(const LatentAttention& latent, const LayerDims& d, LayerTensors* x) {
  const std::int64_t e = d.element;
  (*x)[Tensor::kQueryLatent] = 2 * e * d.own * latent.q_rank;  // norm input and output
  (*x)[Tensor::kKeyValueLatent] = e * d.own * (2 * latent.kv_rank + latent.rope_dim);
}

// Probabilities; with dropout a byte of mask and the dropped copy too. Where softmax falls back to
// PyTorch the fp32 probabilities stay, and their bf16 copy.
std::int64_t ScoreBytes(const MemorySoftware& s, const LayerDims& d) {
  const std::int64_t dropped = s.dropout ? 1 + d.element : 0;
  if (s.softmax_fp32) return (4 + (s.dropout ? dropped : d.element)) * d.scores;
  return (d.element + dropped) * d.scores;
}

void AddAttention(const MemorySoftware& s, const LayerDims& d, LayerTensors* x) {
  const Attention& attention = d.kind->attention;
  const std::int64_t e = d.element;
  if (attention.latent) AddLatents(*attention.latent, d, x);
  (*x)[Tensor::kQuery] = e * d.query();
  (*x)[Tensor::kKey] = e * d.key();
  (*x)[Tensor::kValue] = e * d.value();
  if (attention.qk_norm && !d.latent) (*x)[Tensor::kQueryKeyBeforeNorm] = e * (d.query() + d.key());
  const std::int64_t output = e * d.attention_output();
  (*x)[Tensor::kAttentionOutput] = output;
  if (attention.output_gate) {
    (*x)[Tensor::kGate] = output;  // sigmoid and product run in one kernel that keeps both inputs
    (*x)[Tensor::kGatedOutput] = output;
  }
  if (!s.fused_attention) {
    (*x)[Tensor::kScores] = ScoreBytes(s, d);
    return;
  }
  (*x)[Tensor::kStatistics] = StatisticsBytes(s, d);
  if (d.all_to_all && s.exchange_copy) (*x)[Tensor::kOutputBeforeExchange] = output;
  if (d.context_parallel && !d.all_to_all && s.te) {
    // TransformerEngine packs keys and values into a buffer to pass round and saves the last one
    // for backward beside the originals (attention.py, AttnFuncWithCPAndKVP2P; seen in mlm-ci-014,
    // 027, 030).
    (*x)[Tensor::kPassedKeyValue] = d.element * (d.key() + d.value());
  }
  if (s.batch_first_attention && d.batch > 1) {  // FlashAttention-2 under a sequence-first model
    (*x)[Tensor::kOutputCopy] = output;
  }
}

void AddDense(const LayerDims& d, LayerTensors* x) {
  (*x)[Tensor::kFirstOutput] = d.element * d.tokens * d.width * d.inputs();
  (*x)[Tensor::kActivation] = d.element * d.tokens * d.width;
}

void AddExperts(const MemorySoftware& s, const LayerDims& d, LayerTensors* x) {
  const std::int64_t e = d.element;
  (*x)[Tensor::kRouter] = 16 * d.own * d.experts;  // fp32 logits, probabilities and maps
  (*x)[Tensor::kExpertInput] = e * d.routed * d.hidden;
  (*x)[Tensor::kFirstOutput] = e * d.routed * d.expert_width * d.inputs();
  (*x)[Tensor::kActivation] = e * d.routed * d.expert_width;
  if (!d.gated) (*x)[Tensor::kBeforeWeight] = e * d.routed * d.expert_width;
  if (s.expert_output_kept) (*x)[Tensor::kExpertOutput] = e * d.routed * d.hidden;
  if (d.shared_width == 0) return;
  (*x)[Tensor::kSharedFirstOutput] = e * d.tokens * d.shared_width * d.inputs();
  (*x)[Tensor::kSharedActivation] = e * d.tokens * d.shared_width;
  if (d.kind->feed_forward.experts->shared_gate) (*x)[Tensor::kSharedOutput] = e * d.stream();
}

void AddNorms(const MemorySoftware& s, const LayerDims& d, LayerTensors* x) {
  const std::int64_t stream = d.element * d.stream();
  (*x)[Tensor::kNorm1Input] = stream;
  (*x)[Tensor::kNorm1Output] = s.qkv_trains ? stream : 0;
  if (d.kind->norms != 1) {  // one norm: attention and feed-forward share it
    (*x)[Tensor::kNorm2Input] = stream;
    (*x)[Tensor::kNorm2Output] = s.up_trains ? stream : 0;
  }
  // A norm behind a branch keeps that branch's output; nobody keeps its own.
  if (d.kind->norms > 2) (*x)[Tensor::kPostNorm1] = stream;
  if (d.kind->norms > 3) (*x)[Tensor::kPostNorm2] = stream;
  if (s.dropout) (*x)[Tensor::kHiddenMask1] = (*x)[Tensor::kHiddenMask2] = d.stream();
}

std::vector<NamedBytes> Listed(const LayerTensors& tensors) {
  std::vector<NamedBytes> list;
  for (int i = 0; i < kTensors; ++i) {
    const Tensor tensor = static_cast<Tensor>(i);
    if (tensors[tensor] != 0) list.push_back({Name(tensor), Bytes(tensors[tensor])});
  }
  return list;
}

}  // namespace

std::int64_t StatisticsBytes(const MemorySoftware& s, const LayerDims& d) {
  return (s.ascend ? 64 : 4) * d.tokens * d.heads;
}

std::int64_t AdapterBytes(const MemorySoftware& s, const LayerDims& d) {
  const Training& training = s.job().training;
  if (!training.lora) return 0;
  std::int64_t rows = 0;
  for (const char* target : {"q_proj", "k_proj", "v_proj", "o_proj", "q_a_proj", "q_b_proj",
                             "kv_a_proj_with_mqa", "kv_b_proj"}) {
    if (HasAdapter(training, target)) rows += d.tokens;
  }
  for (const char* target : {"gate_proj", "up_proj", "down_proj"}) {
    if (HasAdapter(training, target)) rows += d.moe ? d.routed : d.tokens;
  }
  return d.element * rows * training.lora->rank;
}

LayerTensors MegatronTensors(const MemorySoftware& s, const LayerDims& d) {
  LayerTensors x;
  AddNorms(s, d, &x);
  AddAttention(s, d, &x);
  if (d.moe) {
    AddExperts(s, d, &x);
  } else {
    AddDense(d, &x);
  }
  if (!s.down_trains) x[Tensor::kActivation] = x[Tensor::kSharedActivation] = 0;
  if (d.moe && !s.up_trains) x[Tensor::kExpertInput] = 0;
  x[Tensor::kAdapters] = AdapterBytes(s, d);
  return x;
}

LayerTensors AllTensors(const MemorySoftware& s, const LayerDims& d) {
  return s.megatron_like ? MegatronTensors(s, d) : TorchTensors(s, d);
}

LayerTensors KeptTensors(const MemorySoftware& s, const LayerDims& d, const LayerTensors& all,
                         Recompute mode) {
  if (mode == Recompute::kOff) return all;
  if (mode == Recompute::kSelective && SelectsByOperator(s)) return TorchSelectiveTensors(s, d);
  LayerTensors x;
  if (mode == Recompute::kFull) {
    x[Tensor::kNorm1Input] = d.element * d.stream();
    return x;
  }
  x = all;
  const SelectiveDrops drops = DropsOf(s, d);
  x.Drop(drops.dropped);
  if (drops.pins_qkv) x[Tensor::kFusedQkv] = d.element * (d.query() + d.key());
  return x;
}

LayerTensors KeptTensors(const MemorySoftware& s, const LayerDims& d, Recompute mode) {
  return KeptTensors(s, d, AllTensors(s, d), mode);
}

std::vector<NamedBytes> SavedTensors(const MemorySoftware& software, const KindTable::Entry& kind,
                                     const MicroShape& shape, Recompute mode) {
  if (software.tower_frozen(kind.tower)) return {};
  return Listed(KeptTensors(software, DimsOf(software, kind, shape), mode));
}

LayerBytes PriceLayerBytes(const MemorySoftware& software, const KindTable::Entry& kind,
                           const MicroShape& shape, Recompute mode) {
  const LayerDims dims = DimsOf(software, kind, shape);
  if (software.tower_frozen(kind.tower)) {
    return {Bytes(0), Bytes(ForwardOnlyWork(software, dims)), Bytes(0)};
  }
  const LayerTensors off = AllTensors(software, dims);
  const LayerTensors kept = KeptTensors(software, dims, off, mode);
  return {Bytes(kept.Sum()), Bytes(ForwardWork(software, dims, off, kept, mode)),
          Bytes(BackwardWork(software, dims, off, kept, mode))};
}

}  // namespace restow::plan
