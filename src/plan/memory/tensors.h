// The tensors a layer can keep from forward to backward, as a fixed array: a price allocates
// nothing.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>

namespace restow::plan {

// In the order a layer makes them.
enum class Tensor {
  kNorm1Input,
  kNorm1Wide,    // PyTorch's eager norm: the input in fp32
  kNorm1Scaled,  // and the normalised value before its weight
  kNorm1Output,
  kQueryLatent,
  kKeyValueLatent,
  kQueryKeyBeforeNorm,
  kQuery,
  kKey,
  kValue,
  kFusedQkv,  // pinned by a view of the value
  kScores,
  kStatistics,
  kAttentionOutput,
  kOutputBeforeExchange,
  kPassedKeyValue,  // ring: the packed keys and values of the last hop
  kOutputCopy,
  kGate,
  kGatedOutput,
  kHiddenMask1,
  kPostNorm1,  // what a norm behind the attention keeps
  kNorm2Input,
  kNorm2Wide,
  kNorm2Scaled,
  kNorm2Output,
  kRouter,
  kExpertInput,
  kFirstOutput,
  kActivated,  // PyTorch's eager gate: the activated half before the product
  kActivation,
  kBeforeWeight,  // activation before the routing weight
  kExpertOutput,
  kSharedFirstOutput,
  kSharedActivated,
  kSharedActivation,
  kSharedOutput,
  kHiddenMask2,
  kPostNorm2,
  kAdapters,
  // What a selective policy of PyTorch saves, by operator.
  kQueryProduct,
  kKeyProduct,
  kValueProduct,
  kLatentProduct,
  kOutputProduct,
  kRouterProduct,
  kFirstProduct,
  kSecondProduct,
  kDownProduct,
  kSharedProduct,
  kCommunication,
};
inline constexpr int kTensors = static_cast<int>(Tensor::kCommunication) + 1;

// "norm 1 input".
const char* Name(Tensor tensor);

using TensorSet = std::bitset<kTensors>;

inline std::size_t Index(Tensor tensor) { return static_cast<std::size_t>(tensor); }

// Bytes by tensor; 0: not kept.
struct LayerTensors {
  std::array<std::int64_t, kTensors> bytes{};

  std::int64_t& operator[](Tensor t) { return bytes[Index(t)]; }
  std::int64_t operator[](Tensor t) const { return bytes[Index(t)]; }
  std::int64_t Sum() const;
  void Drop(const TensorSet& set);
};

}  // namespace restow::plan
