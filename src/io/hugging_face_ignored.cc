// Fields of config.json that decide nothing in a price, and why.
#include <algorithm>
#include <span>
#include <string>

#include "io/hugging_face.h"

namespace restow::hugging_face {
namespace {

struct IgnoredGroup {
  std::string_view reason;
  std::span<const std::string_view> keys;
};

constexpr std::string_view kTokens[] = {
    "decoder_start_token_id", "ignore_index", "image_start_token_id", "end_token_id",
    "video_placeholder", "mm_use_im_patch_token", "mm_use_im_start_end", "image_grid_pinpoints",
    "boi_token", "eoi_token", "user_token_id"};
constexpr std::string_view kGeneration[] = {
    "bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample", "early_stopping",
    "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "length_penalty",
    "max_length", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
    "num_return_sequences", "output_attentions", "output_hidden_states", "output_scores",
    "output_past", "remove_invalid_values", "repetition_penalty", "return_dict",
    "return_dict_in_generate", "suppress_tokens", "temperature", "top_k", "top_p", "typical_p",
    "use_cache", "use_return_dict", "num_logits_to_keep", "forced_bos_token_id",
    "forced_eos_token_id", "cache_implementation", "pre_allocate_kv_cache", "pad_key_length",
    "max_batch_size", "inference_runner", "validate_runner_input", "prefix", "max_new_tokens",
    "generation_config", "cache_config"};
constexpr std::string_view kTraining[] = {
    "initializer_range", "initializer_factor", "init_std", "init_config", "init_device",
    "emb_init_std", "router_aux_loss_coef", "router_z_loss_coef", "aux_loss_alpha", "seq_aux",
    "output_router_logits", "router_jitter_noise", "input_jitter_noise", "layerdrop",
    "encoder_layerdrop", "gradient_checkpointing", "freeze_mm_mlp_adapter",
    "freeze_mm_vision_resampler", "tune_mm_mlp_adapter", "tune_mm_vision_resampler",
    "unfreeze_mm_vision_tower", "use_backbone_lora", "use_llm_lora", "sequence_parallel_enabled",
    "selective_checkpoint_enabled", "pretraining_tp", "ep_size", "gradient_clipping",
    "moe_loss_weight", "moe_jitter_eps", "moe_normalize_expert_weights", "uniform_expert_assignment",
    "mm_projector_lr", "mm_vision_tower_lr", "mm_tunable_parts", "attention_softmax_in_fp32",
    "drop_path_rate", "dropout", "use_mm_proj"};
constexpr std::string_view kFramework[] = {
    "_name_or_path", "_commit_hash", "architectures", "auto_map", "transformers_version",
    "model_type", "task_specific_params", "id2label", "label2id", "problem_type", "num_labels",
    "finetuning_task", "tokenizer_class", "tokenizer_name", "torchscript", "tf_legacy_loss",
    "pruned_heads", "is_decoder", "is_encoder_decoder", "add_cross_attention",
    "cross_attention_hidden_size", "tie_encoder_decoder", "chunk_size_feed_forward",
    "attn_implementation", "_attn_implementation", "_attn_implementation_autoset",
    "_flash_attn_2_enabled", "attn_impl", "use_flash_attn", "use_flash_attention", "version",
    "verbose", "onnx_safe", "linear_impl_type", "torch_dtype", "dtype", "use_bfloat16", "bf16",
    "fp16", "fp32", "fp32_residual_connection", "quantization_config", "expert_dtype",
    "bias_dropout_fusion", "masked_softmax_fusion", "skip_bias_add", "skip_bias_add_qkv",
    "ps_version", "template", "system_message", "select_layer", "name", "summary_activation",
    "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj",
    "language_model_type", "unsloth_version", "unsloth_fixed", "is_composition", "quantization",
    "keys_to_ignore_at_inference", "norm_type", "mlp_type", "layer_norm_type", "projection_dim",
    "text_config_dict", "vision_config_dict", "tokenizer_padding_side", "tokenizer_model_max_length"};
constexpr std::string_view kImages[] = {
    "dynamic_image_size", "force_image_size", "image_aspect_ratio", "image_crop_resolution",
    "image_split_resolution", "max_dynamic_patch", "min_dynamic_patch", "use_thumbnail",
    "slice_config", "slice_mode", "batch_vision_input", "spatial_patch_size", "tokens_per_second",
    "mm_vision_select_feature", "mm_vision_select_layer", "vision_feature_select_strategy",
    "image_seq_length", "pixel_shuffle_ratio", "position_id_per_seconds", "seconds_per_chunk",
    "n_window", "video_attn_type", "merge_type", "pos_emb_type", "mm_projector_type",
    "init_pos_emb_time", "use_unified_vision_chunk", "use_position_ids", "scale_embedding",
    "use_image_newline_parameter", "vision_aspect_ratio", "mm_patch_merge_type",
    "mm_spatial_pool_mode", "add_faster_video", "num_image_tokens", "_vision_feature_layer",
    "multi_modal_projector_bias", "add_time_instruction"};
constexpr std::string_view kScale[] = {
    "hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act",
    "projector_hidden_act", "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
    "layernorm_epsilon", "norm_epsilon", "norm_eps", "projector_ln_eps", "logit_scale",
    "scale_attn_weights", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn",
    "scale_attention_softmax_in_fp32", "apply_query_key_layer_scaling", "use_logn_attn",
    "attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar", "softmax_scale",
    "swiglu_limit", "swiglu_limits", "swiglu_limits_shared", "swiglu_alpha", "attention_value_scale",
    "attn_output_multiplier", "embedding_multiplier_scale", "output_multiplier_scale",
    "max_attn_value", "embedding_multiplier", "residual_multiplier", "attention_multiplier",
    "logits_scaling", "scale_emb", "dim_model_base", "scale_depth", "attn_temperature_tuning",
    "floor_scale", "attn_scale", "clip_qkv", "embedding_fraction", "attn_uses_sequence_id",
    "prefix_lm", "apply_residual_connection_post_layernorm", "use_parallel_residual", "norm_after",
    "ffn_act_fn", "activation", "slow_but_exact", "use_mup", "use_bidirectional_attention", "layer_norm_elementwise_affine"};
constexpr std::string_view kPositions[] = {
    "rotary", "offset_alibi", "alibi", "alibi_bias_max", "original_rope", "original_max_position_embeddings",
    "partial_rotary_factor", "partial_rotary_factors", "swa_rope_theta", "use_dynamic_ntk",
    "model_max_length", "initial_context_length", "use_mrope", "mrope_section",
    "no_rope_layers", "no_rope_layer_interval", "relative_attention", "yarn_only_types",
    "n_ctx", "max_position_embedding", "use_rope", "position_embedding_type", "use_scaled_rope"};
constexpr std::string_view kRouting[] = {
    "norm_topk_prob", "n_group", "topk_group", "topk_method", "scoring_func",
    "routed_scaling_factor", "moe_router_scaling_factor", "moe_router_activation", "norm_expert_weight",
    "num_expert_group", "moe_layer_start_index", "use_routing_bias", "router_bias_update_rate"};
constexpr std::string_view kUnused[] = {
    "attention_bias", "max_window_layers", "use_sliding_window", "sliding_window",
    "attention_chunk_size", "attention_layers", "layer_types", "head_dim", "embed_dim",
    "vocab_size", "num_channels", "in_channels", "in_chans", "hidden_size", "num_hidden_layers",
    "max_position_embeddings", "tie_word_embeddings", "sliding_window_pattern",
    "mlp_bias", "qk_head_dim", "block_size_feed_forward", "cross_attention_layers",
    "num_key_value_heads", "hidden_dropout", "text_model_type"};

constexpr IgnoredGroup kGroups[] = {
    {"names special tokens", kTokens},
    {"concerns text generation", kGeneration},
    {"a setting of an earlier training run; the job states its own", kTraining},
    {"concerns the framework, or is stated by the job (precision, quantisation)", kFramework},
    {"how inputs are cut and selected; the number of patches is assumed", kImages},
    {"scales values; changes no size", kScale},
    {"how positions are encoded; changes no size", kPositions},
    {"how experts are chosen; changes no size", kRouting},
    {"has no effect in this family", kUnused},
};

bool EndsWithAny(std::string_view key, std::span<const std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](auto end) { return key.ends_with(end); });
}

// Keys that follow a pattern.
std::string_view PatternReason(std::string_view key) {
  static constexpr std::string_view kTokenEnds[] = {"_token_id", "_token_ids", "_token_index"};
  static constexpr std::string_view kDropoutEnds[] = {"_dropout", "_pdrop", "_dropout_prob"};
  if (EndsWithAny(key, kTokenEnds)) return "names special tokens";
  if (EndsWithAny(key, kDropoutEnds)) return "dropout; the job states what is kept";
  if (key.starts_with("rope_") || key.starts_with("rotary_")) {
    return "how positions are encoded; changes no size";
  }
  return "";
}

}  // namespace

std::string_view IgnoredReason(std::string_view key) {
  for (const IgnoredGroup& group : kGroups) {
    if (std::find(group.keys.begin(), group.keys.end(), key) != group.keys.end()) {
      return group.reason;
    }
  }
  return PatternReason(key);
}

void NoteUntaken(const Fields& f, Model& model) {
  for (const auto* member : f.Untaken()) {
    const std::string_view reason = IgnoredReason(member->first);
    const std::string path = FieldPath(f.node(), member->first);
    if (!reason.empty()) {
      model.ignored.push_back({path, std::string(reason)});
    } else {
      model.unknown.push_back({path, "not known to the reader of this family"});
    }
  }
}

}  // namespace restow::hugging_face
