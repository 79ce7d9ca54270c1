#include "plan/memory/tensors.h"

namespace restow::plan {

const char* Name(Tensor tensor) {
  static constexpr std::array<const char*, kTensors> kNames = {
      "norm 1 input",
      "norm 1 input in fp32",
      "norm 1 before its weight",
      "norm 1 output",
      "query latent",
      "key-value latent",
      "query and key before their norm",
      "query",
      "key",
      "value",
      "fused query-key-value",
      "attention scores",
      "attention statistics",
      "attention output",
      "attention output before exchange",
      "keys and values passed round the ring",
      "attention output copy",
      "output gate",
      "gated output",
      "dropout mask 1",
      "post-attention norm",
      "norm 2 input",
      "norm 2 input in fp32",
      "norm 2 before its weight",
      "norm 2 output",
      "router",
      "expert input",
      "feed-forward first output",
      "feed-forward gate",
      "feed-forward activation",
      "expert activation before routing weight",
      "expert output",
      "shared expert first output",
      "shared expert gate",
      "shared expert activation",
      "shared expert output",
      "dropout mask 2",
      "post-feed-forward norm",
      "adapter activations",
      "matmul: query",
      "matmul: key",
      "matmul: value",
      "matmul: latents",
      "matmul: attention output",
      "matmul: router",
      "matmul: gate",
      "matmul: up",
      "matmul: down",
      "matmul: shared expert",
      "communication",
  };
  return kNames[Index(tensor)];
}

std::int64_t LayerTensors::Sum() const {
  std::int64_t sum = 0;
  for (const std::int64_t b : bytes) sum += b;
  return sum;
}

void LayerTensors::Drop(const TensorSet& set) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (set[i]) bytes[i] = 0;
  }
}

}  // namespace restow::plan
