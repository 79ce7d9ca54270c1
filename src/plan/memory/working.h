// What lives beside saved tensors while one layer runs. Bytes. Source: memory-model.md section 7
// for Megatron-LM, section 10 for PyTorch.
#pragma once

#include "plan/memory/dims.h"
#include "plan/memory/tensors.h"

namespace restow::plan {

// `off` is all a layer would keep, `kept` what it keeps under `mode`.
std::int64_t ForwardWork(const MemorySoftware& software, const LayerDims& dims,
                         const LayerTensors& off, const LayerTensors& kept, Recompute mode);
// Beside everything saved, net of what the layer has freed by then.
std::int64_t BackwardWork(const MemorySoftware& software, const LayerDims& dims,
                          const LayerTensors& off, const LayerTensors& kept, Recompute mode);
// A layer that nothing is saved of: its widest half.
std::int64_t ForwardOnlyWork(const MemorySoftware& software, const LayerDims& dims);

}  // namespace restow::plan
