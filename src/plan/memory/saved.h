// Lists of saved tensors by framework; SavedTensors and PriceLayerBytes are made of them.
#pragma once

#include "plan/memory/dims.h"
#include "plan/memory/tensors.h"

namespace restow::plan {

// Everything a layer keeps without recompute.
// Megatron-LM, MindSpeed, MindFormers. Source: memory-model.md section 5.
LayerTensors MegatronTensors(const MemorySoftware& software, const LayerDims& dims);
// PyTorch autograd over one layer: eager, or with pointwise chains fused by a compiler.
LayerTensors TorchTensors(const MemorySoftware& software, const LayerDims& dims);
// What PyTorch's selective checkpoint policies save. Source: memory-model.md section 6.
LayerTensors TorchSelectiveTensors(const MemorySoftware& software, const LayerDims& dims);

// Either, by framework.
LayerTensors AllTensors(const MemorySoftware& software, const LayerDims& dims);

// What a layer keeps under a mode; `all` is AllTensors.
LayerTensors KeptTensors(const MemorySoftware& software, const LayerDims& dims,
                         const LayerTensors& all, Recompute mode);
LayerTensors KeptTensors(const MemorySoftware& software, const LayerDims& dims, Recompute mode);

// What `selective` gives up of the full list under a list of module names.
struct SelectiveDrops {
  TensorSet dropped;
  bool pins_qkv = false;  // the value, kept as a view, pins the fused query-key-value output
};
SelectiveDrops DropsOf(const MemorySoftware& software, const LayerDims& dims);

// Whether `selective` is a per-operator policy rather than a list of modules.
bool SelectsByOperator(const MemorySoftware& software);

// 64 bytes on Ascend: maximum and sum, fp32 [B,N,S,8] each (op-plugin); else one fp32.
std::int64_t StatisticsBytes(const MemorySoftware& software, const LayerDims& dims);

// Results of LoRA's first product of each adapter, kept for the second.
std::int64_t AdapterBytes(const MemorySoftware& software, const LayerDims& dims);

}  // namespace restow::plan
