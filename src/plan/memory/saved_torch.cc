// What PyTorch's autograd keeps of a decoder block.
//
// Eager lists follow from the operators of the Hugging Face modelling code (modeling_llama.py and
// its kin) and from what each operator saves: a norm written out in Python keeps its input in fp32
// (the square and the product both), the normalised value (for the weight's gradient) and its
// output; a linear keeps its input; rotary embedding keeps no activation; SDPA keeps query, key,
// value, output and log-sum-exp; silu keeps its input, the product both factors. Query, key and
// value enter SDPA without kv heads expanded (transformers with enable_gqa, PyTorch 2.5). Under
// torch.compile pointwise chains are fused and their inputs kept once (section 6, "torchtitan off,
// compiled").
#include <algorithm>

#include "plan/memory/saved.h"

namespace restow::plan {
namespace {

struct NormTensors {
  Tensor input, wide, scaled, output;
};
constexpr NormTensors kNorm1 = {Tensor::kNorm1Input, Tensor::kNorm1Wide, Tensor::kNorm1Scaled,
                                Tensor::kNorm1Output};
constexpr NormTensors kNorm2 = {Tensor::kNorm2Input, Tensor::kNorm2Wide, Tensor::kNorm2Scaled,
                                Tensor::kNorm2Output};

// Bytes an eager RMSNorm keeps per element besides its output.
std::int64_t EagerNorm(const MemorySoftware& s, const LayerDims& d) {
  return 4 + (s.norms_train ? d.element : 0);
}

// LayerNorm is one kernel: input, and fp32 mean and deviation per token.
void AddNorm(const MemorySoftware& s, const LayerDims& d, const NormTensors& at,
             bool feeds_products, LayerTensors* x) {
  const std::int64_t stream = d.element * d.stream();
  if (feeds_products) (*x)[at.output] = stream;
  if (!s.eager) {
    (*x)[at.input] = stream;
  } else if (d.kind->norm_bias) {
    (*x)[at.input] = stream + 8 * d.own;
  } else {
    (*x)[at.wide] = 4 * d.stream();
    (*x)[at.scaled] = s.norms_train ? stream : 0;
  }
}

void AddPostNorms(const MemorySoftware& s, const LayerDims& d, LayerTensors* x) {
  const std::int64_t each =
      s.eager && !d.kind->norm_bias ? EagerNorm(s, d) * d.stream() : d.element * d.stream();
  if (d.kind->norms > 2) (*x)[Tensor::kPostNorm1] = each;
  if (d.kind->norms > 3) (*x)[Tensor::kPostNorm2] = each;
}

void AddLatents(const MemorySoftware& s, const LatentAttention& latent, const LayerDims& d,
                LayerTensors* x) {
  const std::int64_t norm = (s.eager ? EagerNorm(s, d) : d.element) + d.element;
  (*x)[Tensor::kQueryLatent] = norm * d.own * latent.q_rank;
  (*x)[Tensor::kKeyValueLatent] =
      d.own * (norm * latent.kv_rank + (s.eager ? 0 : d.element * latent.rope_dim));
}

// The value of latent attention is a view of the up-projection's output and keeps all of it.
std::int64_t ValueBytes(const LayerDims& d) {
  const std::int64_t pinned =
      d.latent ? d.tokens * d.heads * d.kind->attention.latent->nope_dim : 0;
  return d.element * (d.value() + pinned);
}

void AddAttention(const MemorySoftware& s, const LayerDims& d, LayerTensors* x) {
  const Attention& attention = d.kind->attention;
  const std::int64_t e = d.element;
  if (attention.latent) AddLatents(s, *attention.latent, d, x);
  const std::int64_t repeat = s.fused_attention || d.latent ? 1 : d.heads / d.kv_heads;
  (*x)[Tensor::kQuery] = e * d.query();
  (*x)[Tensor::kKey] = e * d.key() * repeat;
  (*x)[Tensor::kValue] = ValueBytes(d) * repeat;
  if (attention.qk_norm && !d.latent) {
    (*x)[Tensor::kQueryKeyBeforeNorm] = (s.eager ? EagerNorm(s, d) : e) * (d.query() + d.key());
  }
  (*x)[Tensor::kAttentionOutput] = e * d.attention_output();
  if (attention.output_gate)
    (*x)[Tensor::kGate] = (*x)[Tensor::kGatedOutput] = e * d.attention_output();
  if (s.fused_attention) {
    (*x)[Tensor::kStatistics] = StatisticsBytes(s, d);
  } else {
    // fp32 softmax result and its copy for the value product; with dropout a mask and that copy.
    (*x)[Tensor::kScores] = (4 + e + (s.dropout ? 1 + e : 0)) * d.scores;
  }
}

// Products of `rows` tokens into `width` and back: gate, its activation, up, and their product when
// eager; a compiler keeps gate and up and what the last product takes.
struct FeedForwardBytes {
  std::int64_t first, activated, product;
};
FeedForwardBytes FeedForwardOf(const MemorySoftware& s, const LayerDims& d, std::int64_t rows,
                               std::int64_t width) {
  const std::int64_t one = d.element * rows * width;
  return {one * d.inputs(), s.eager && d.gated ? one : 0, s.down_trains ? one : 0};
}

// Without a grouped product experts run one after another over gathered tokens, and weigh their
// output: it stays.
void AddExperts(const MemorySoftware& s, const LayerDims& d, LayerTensors* x) {
  const std::int64_t e = d.element;
  (*x)[Tensor::kRouter] = 16 * d.own * d.experts;
  (*x)[Tensor::kExpertInput] = s.up_trains ? e * d.routed * d.hidden : 0;
  const FeedForwardBytes routed = FeedForwardOf(s, d, d.routed, d.expert_width);
  (*x)[Tensor::kFirstOutput] = routed.first;
  (*x)[Tensor::kActivated] = routed.activated;
  (*x)[Tensor::kActivation] = routed.product;
  (*x)[Tensor::kExpertOutput] = e * d.routed * d.hidden;
  if (d.shared_width == 0) return;
  const FeedForwardBytes shared = FeedForwardOf(s, d, d.tokens, d.shared_width);
  (*x)[Tensor::kSharedFirstOutput] = shared.first;
  (*x)[Tensor::kSharedActivated] = shared.activated;
  (*x)[Tensor::kSharedActivation] = shared.product;
  if (d.kind->feed_forward.experts->shared_gate) (*x)[Tensor::kSharedOutput] = e * d.stream();
}

// Matrix products of a block in the order they run, with the bytes of their results.
struct Product {
  Tensor result;
  std::int64_t bytes;
};
struct ProductList {
  std::array<Product, 16> items{};
  int size = 0;
  void Add(Tensor result, std::int64_t elements, const LayerDims& d) {
    items[static_cast<std::size_t>(size++)] = {result, d.element * elements};
  }
};

void AddAttentionProducts(const LayerDims& d, ProductList* list) {
  const Attention& attention = d.kind->attention;
  if (attention.latent) {
    const LatentAttention& latent = *attention.latent;
    if (latent.q_rank > 0) list->Add(Tensor::kLatentProduct, d.own * latent.q_rank, d);
    list->Add(Tensor::kQueryProduct, d.query(), d);
    list->Add(Tensor::kLatentProduct, d.own * (latent.kv_rank + latent.rope_dim), d);
    list->Add(Tensor::kValueProduct, d.tokens * d.heads * (latent.nope_dim + latent.value_dim), d);
  } else {
    list->Add(Tensor::kQueryProduct, d.query() * (attention.output_gate ? 2 : 1), d);
    list->Add(Tensor::kKeyProduct, d.key(), d);
    list->Add(Tensor::kValueProduct, d.value(), d);
  }
  list->Add(Tensor::kOutputProduct, d.stream(), d);
}

void AddFeedForwardProducts(const MemorySoftware& s, const LayerDims& d, ProductList* list) {
  if (!d.moe) {
    list->Add(Tensor::kFirstProduct, d.tokens * d.width, d);
    if (d.gated) list->Add(Tensor::kSecondProduct, d.tokens * d.width, d);
    list->Add(Tensor::kDownProduct, d.stream(), d);
    return;
  }
  list->Add(Tensor::kRouterProduct, d.own * d.experts, d);
  // torchtitan's policy counts aten.mm, which a grouped product is not; HyperParallel's counts
  // every product.
  if (s.framework == Framework::kHyperParallel) {
    list->Add(Tensor::kFirstProduct, d.routed * d.expert_width * d.inputs(), d);
    list->Add(Tensor::kDownProduct, d.routed * d.hidden, d);
  }
  if (d.shared_width == 0) return;
  list->Add(Tensor::kSharedProduct, d.tokens * d.shared_width, d);
  if (d.gated) list->Add(Tensor::kSharedProduct, d.tokens * d.shared_width, d);
  list->Add(Tensor::kSharedProduct, d.stream(), d);
}

}  // namespace

LayerTensors TorchTensors(const MemorySoftware& s, const LayerDims& d) {
  LayerTensors x;
  AddNorm(s, d, kNorm1, s.qkv_trains, &x);
  if (d.kind->norms != 1) AddNorm(s, d, kNorm2, s.up_trains, &x);
  AddPostNorms(s, d, &x);
  AddAttention(s, d, &x);
  if (d.moe) {
    AddExperts(s, d, &x);
  } else {
    const FeedForwardBytes dense = FeedForwardOf(s, d, d.tokens, d.width);
    x[Tensor::kFirstOutput] = dense.first;
    x[Tensor::kActivated] = dense.activated;
    x[Tensor::kActivation] = dense.product;
  }
  if (s.dropout) x[Tensor::kHiddenMask1] = x[Tensor::kHiddenMask2] = d.stream();
  x[Tensor::kAdapters] = AdapterBytes(s, d);
  return x;
}

LayerTensors TorchSelectiveTensors(const MemorySoftware& s, const LayerDims& d) {
  LayerTensors x;
  x[Tensor::kNorm1Input] = d.element * d.stream();
  x[Tensor::kAttentionOutput] = d.element * d.attention_output();
  if (s.fused_attention) x[Tensor::kStatistics] = StatisticsBytes(s, d);
  ProductList products;
  AddAttentionProducts(d, &products);
  AddFeedForwardProducts(s, d, &products);
  for (int i = 0; i < products.size; i += 2) {  // every second product, the first included
    const Product& product = products.items[static_cast<std::size_t>(i)];
    x[product.result] += product.bytes;
  }
  // HyperParallel saves what communication yields: tokens dispatched to experts and combined.
  if (s.framework == Framework::kHyperParallel && d.moe && d.exchanged) {
    x[Tensor::kCommunication] = 2 * d.element * d.routed * d.hidden;
  }
  return x;
}

}  // namespace restow::plan
