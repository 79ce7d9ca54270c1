// Which parts of a model train: globs of `training.frozen`, and LoRA, over module names.
//
// Names: "embed_tokens", "layers.{i}", "layers.{i}.self_attn", "layers.{i}.mlp",
// "layers.{i}.mlp.experts", "layers.{i}.norms", "norm", "lm_head", "mtp"; of a tower T
// "T.embeddings", "T.layers.{i}" (or "T.blocks.{i}") with the same parts; "projector" (or
// "multi_modal_projector"). A glob that matches a module covers everything in it; a leading
// "model." or "language_model." is ignored.
#pragma once

#include <string>
#include <string_view>

#include "restow/schema/job.h"

namespace restow::plan {

// Whether `module` or one it lies in is frozen by a glob. LoRA freezes everything.
bool IsFrozen(const Training& training, std::string_view module);

// "layers.3" of the language model (tower -1), "visual.layers.3" of a tower.
std::string LayerModule(const Model& model, int tower, int layer);

// Whether nothing in the tower trains.
bool IsTowerFrozen(const Job& job, int tower);

// Throws kBadInput for a glob that matches no module of the model, and for a LoRA target that is no
// product: a part frozen by mistake, or not at all, is a wrong figure.
void CheckFrozen(const Job& job);

// Whether LoRA adapts the product named `target` ("q_proj"); false without LoRA.
bool HasAdapter(const Training& training, std::string_view target);

}  // namespace restow::plan
