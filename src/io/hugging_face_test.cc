#include "io/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "restow/io/read.h"

namespace restow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Model Read(const std::string& json) {
  return ReadHuggingFace(ParseDocument(json, Language::kJson, "config.json"), "given");
}

Error Fault(const std::string& json) {
  try {
    Read(json);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "was read: " << json;
  return {ErrorCode::kInternal, ""};
}

// A small llama; `more` adds or comes instead of fields.
std::string Llama(const std::string& more) {
  return R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 64,
 "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4)" +
         more + "}";
}

std::int64_t Total(const Model& model) { return CountParameters(model).total; }

// Windows of the layers in order.
std::vector<int> Windows(const Model& model) {
  std::vector<int> windows;
  for (const int kind : model.stack.order) {
    windows.push_back(model.stack.kinds[static_cast<std::size_t>(kind)].attention.window);
  }
  return windows;
}

// Which layers have experts.
std::vector<int> Sparse(const Model& model) {
  std::vector<int> sparse;
  for (const int kind : model.stack.order) {
    const auto& ffn = model.stack.kinds[static_cast<std::size_t>(kind)].feed_forward;
    sparse.push_back(ffn.experts ? 1 : 0);
  }
  return sparse;
}

TEST(HuggingFace, EveryFamilyCountsAsItsOwnImplementationDoes) {
  const Node data = ReadDocument(RESTOW_SOURCE_DIR "/src/io/testdata/hugging_face_families.json");
  const std::vector<Node>& cases = data.Find("cases")->AsList();
  EXPECT_GT(cases.size(), 80u);
  for (const Node& one : cases) {
    const std::string& name = one.Find("name")->AsString();
    EXPECT_EQ(Total(ReadHuggingFace(*one.Find("config"), name)),
              one.Find("parameters")->AsInteger())
        << name;
  }
}

// Llama 2 7B: a layer has attention 4*4096^2 = 67,108,864, feed-forward 3*4096*11008 =
// 135,266,304 and norms 2*4096 = 8,192: 202,383,360. 32 layers: 6,476,267,520. Two tables
// 2*32000*4096 = 262,144,000 and the final norm 4,096: 6,738,415,616.
TEST(HuggingFace, ALlamaIsCountedByHand) {
  const Model model = Read(R"({"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096,
      "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32})");
  EXPECT_EQ(Total(model), 6'738'415'616);
}

// DeepSeek-V2-Lite: a layer's latent attention has queries 2048*16*192 = 6,291,456, compression
// 2048*(512+64) + 512 = 1,180,160, expansion 512*16*(128+128) = 2,097,152 and output 16*128*2048 =
// 4,194,304: 13,763,072; norms 4,096. The first layer's feed-forward 3*2048*10944 = 67,239,936.
// A sparse layer: 64 experts of 3*2048*1408 = 8,650,752 = 553,648,128, shared 2*8,650,752 =
// 17,301,504, router 2048*64 = 131,072. 27*13,767,168 + 67,239,936 + 26*571,080,704 +
// 2*102400*2048 + 2048 = 371,713,536 + 67,239,936 + 14,848,098,304 + 419,430,400 + 2,048 =
// 15,706,484,224; a token visits 6 of 64 experts, so 26*58*8,650,752 = 13,045,334,016 are idle.
TEST(HuggingFace, LatentAttentionAndSharedExpertsAreCountedByHand) {
  const Model model = Read(R"({"model_type": "deepseek_v2", "vocab_size": 102400,
      "hidden_size": 2048, "intermediate_size": 10944, "num_hidden_layers": 27,
      "num_attention_heads": 16, "num_key_value_heads": 16, "q_lora_rank": null,
      "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
      "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
      "moe_intermediate_size": 1408, "first_k_dense_replace": 1, "moe_layer_freq": 1})");
  EXPECT_EQ(Total(model), 15'706'484'224);
  EXPECT_EQ(CountParameters(model).active, 15'706'484'224 - 13'045'334'016);
  EXPECT_EQ(model.stack.kinds.front().attention.latent->q_rank, 0);
}

// CLIP ViT-L/14 at 336 pixels: 24 layers of 4*(1024^2+1024) + (1024*4096+4096) +
// (4096*1024+1024) + 4*1024 = 12,596,224; patches 588*1024, class 1024, positions 577*1024, two
// norms 4*1024: 303,507,456 in all. Projector: 1024*4096+4096 + 4096*4096+4096 = 20,979,712.
TEST(HuggingFace, ATowerNamedByItsRepositoryIsCountedByHand) {
  const Model model = Read(R"({"model_type": "llava", "vocab_size": 32000, "hidden_size": 4096,
      "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
      "mm_vision_tower": "openai/clip-vit-large-patch14-336", "mm_hidden_size": 1024,
      "mm_projector_type": "mlp2x_gelu"})");
  EXPECT_EQ(CountParameters(model).towers, 303'507'456);
  EXPECT_EQ(model.projector_parameters, 20'979'712);
  EXPECT_EQ(model.towers.front().patches, 576);
  EXPECT_FALSE(model.towers.front().stack.kinds.front().attention.causal);
}

TEST(HuggingFace, AbsentKeyValueHeadsAreOnePerHead) {
  EXPECT_EQ(Read(Llama("")).stack.kinds.front().attention.kv_heads, 4);
  EXPECT_EQ(Read(Llama(R"(, "num_key_value_heads": 2)")).stack.kinds.front().attention.kv_heads, 2);
}

TEST(HuggingFace, MultiQueryIsOneKeyValueHead) {
  const std::string gpt = R"({"model_type": "gpt_bigcode", "n_embd": 64, "n_head": 4, "n_layer": 1,
      "n_positions": 8, "vocab_size": 10, "multi_query": )";
  EXPECT_EQ(Read(gpt + "true}").stack.kinds.front().attention.kv_heads, 1);
  EXPECT_EQ(Read(gpt + "false}").stack.kinds.front().attention.kv_heads, 4);
}

TEST(HuggingFace, AStatedHeadWidthNeedNotFillTheHiddenSize) {
  const Model model = Read(Llama(R"(, "head_dim": 40)"));
  EXPECT_EQ(model.stack.kinds.front().attention.head_dim, 40);
}

TEST(HuggingFace, LatentAttentionIgnoresAStatedHeadWidth) {
  const Model model = Read(R"({"model_type": "deepseek_v3", "vocab_size": 100, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4, "head_dim": 64,
      "kv_lora_rank": 16, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256})");
  EXPECT_EQ(model.stack.kinds.front().attention.QueryWidth(), 256);
}

TEST(HuggingFace, Gemma3LeavesHeadsAndVocabularyToItsClassAndSaysSo) {
  const Model model = Read(R"({"model_type": "gemma3", "text_config": {"hidden_size": 2560,
      "intermediate_size": 10240, "num_hidden_layers": 34}, "vision_config": {"hidden_size": 1152,
      "image_size": 896, "intermediate_size": 4304, "num_attention_heads": 16,
      "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": false}})");
  const Attention& attention = model.stack.kinds.front().attention;
  EXPECT_EQ(attention.heads, 8);
  EXPECT_EQ(attention.kv_heads, 4);
  EXPECT_EQ(attention.head_dim, 256);
  EXPECT_EQ(model.vocab, 262208);
  EXPECT_TRUE(model.tied);
  EXPECT_EQ(Total(model), 4'300'079'472);
  std::vector<std::string> assumed;
  for (const FieldNote& note : model.assumed) assumed.push_back(note.path);
  EXPECT_THAT(assumed, testing::Contains("text_config.head_dim"));
  EXPECT_EQ(model.towers.front().patches / model.towers.front().merge, 256);
}

TEST(HuggingFace, AMissingTieFlagMeansWhatTheFamilyMeans) {
  EXPECT_FALSE(Read(Llama("")).tied);
  EXPECT_TRUE(Read(Llama(R"(, "tie_word_embeddings": true)")).tied);
  EXPECT_TRUE(Read(R"({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 1,
      "n_positions": 8, "vocab_size": 10})")
                  .tied);
}

TEST(HuggingFace, ANestedModelInheritsTheOuterTieFlag) {
  const std::string text = R"("text_config": {"model_type": "llama", "vocab_size": 100,
      "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
      "num_attention_heads": 4}, "vision_config": {"model_type": "clip_vision_model"}})";
  EXPECT_TRUE(Read(R"({"model_type": "llava", "tie_word_embeddings": true, )" + text).tied);
  EXPECT_FALSE(Read(R"({"model_type": "llava", )" + text).tied);
}

TEST(HuggingFace, WidthIsThatOfBothBranchesInQwen1) {
  const Model model = Read(R"({"model_type": "qwen", "vocab_size": 100, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4})");
  EXPECT_EQ(model.stack.kinds.front().feed_forward.width, 48);
}

TEST(HuggingFace, WidthIsThatOfAnExpertInMixtral) {
  const Model model = Read(R"({"model_type": "mixtral", "vocab_size": 100, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
      "num_local_experts": 8, "num_experts_per_tok": 2})");
  EXPECT_EQ(model.stack.kinds.front().feed_forward.experts->width, 96);
}

TEST(HuggingFace, Llama4AlternatesDenseAndSparseAndChunkedLayers) {
  const Model model = Read(R"({"model_type": "llama4_text", "vocab_size": 100, "hidden_size": 64,
      "intermediate_size": 96, "intermediate_size_mlp": 128, "num_hidden_layers": 4,
      "num_attention_heads": 4, "head_dim": 16, "num_local_experts": 8, "num_experts_per_tok": 1,
      "interleave_moe_layer_step": 2, "attention_chunk_size": 32})");
  EXPECT_THAT(Sparse(model), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(Windows(model), ElementsAre(32, 32, 32, 0));
  EXPECT_EQ(model.stack.kinds.front().feed_forward.width, 128);
}

TEST(HuggingFace, ADenseHeadIsAStepOrAListOfFlags) {
  const std::string moe = R"({"model_type": "glm4_moe", "vocab_size": 100, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
      "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, )";
  EXPECT_THAT(Sparse(Read(moe + R"("first_k_dense_replace": 3})")), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(Sparse(Read(moe + R"("first_k_dense_replace": 1, "moe_layer_freq": 2})")),
              ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(Sparse(Read(moe + R"("moe_layer_freq": [0, 1, 1, 0]})")), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(Fault(moe + R"("moe_layer_freq": [0, 1]})").what(),
              HasSubstr("moe_layer_freq has 2 entries; the model has 4 layers"));
}

TEST(HuggingFace, QwenSparsityFollowsStepAndExceptions) {
  const Model model = Read(R"({"model_type": "qwen3_moe", "vocab_size": 100, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 6, "num_attention_heads": 4, "head_dim": 16,
      "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
      "decoder_sparse_step": 2, "mlp_only_layers": [3]})");
  EXPECT_THAT(Sparse(model), ElementsAre(0, 1, 0, 0, 0, 1));
}

TEST(HuggingFace, WindowsFollowLayerTypesOrTheFamilysPattern) {
  const std::string gemma = R"({"model_type": "gemma2", "vocab_size": 100, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 16,
      "sliding_window": 8)";
  EXPECT_THAT(Windows(Read(gemma + "}")), ElementsAre(8, 0, 8, 0));
  EXPECT_THAT(Windows(Read(gemma + R"(, "layer_types": ["full_attention", "sliding_attention",
      "full_attention", "full_attention"]})")),
              ElementsAre(0, 8, 0, 0));
  EXPECT_THAT(Fault(gemma + R"(, "layer_types": ["full_attention"]})").what(),
              HasSubstr("layer_types names 1 layers; the model has 4"));
}

TEST(HuggingFace, AQwenWindowCountsOnlyWhereItIsUsed) {
  const std::string qwen = R"({"model_type": "qwen2", "vocab_size": 100, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
      "sliding_window": 8, "max_window_layers": 1, "use_sliding_window": )";
  EXPECT_THAT(Windows(Read(qwen + "false}")), ElementsAre(0, 0, 0));
  EXPECT_THAT(Windows(Read(qwen + "true}")), ElementsAre(0, 8, 8));
}

TEST(HuggingFace, PredictionLayersAreLikeTheLastLayer) {
  const Model model = Read(R"({"model_type": "glm4_moe", "vocab_size": 100, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
      "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
      "first_k_dense_replace": 3, "num_nextn_predict_layers": 2})");
  EXPECT_EQ(model.mtp_layers, 2);
  EXPECT_EQ(model.stack.kinds[static_cast<std::size_t>(model.mtp_kind)].name, "moe");
}

TEST(HuggingFace, FilesWithoutAModelTypeGoByTheirArchitecture) {
  const Model model = Read(R"({"architectures": ["InternLM2ForCausalLM"], "vocab_size": 100,
      "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
      "num_attention_heads": 4, "bias": false})");
  EXPECT_EQ(model.family, "internlm2");
  const Error error = Fault("{\"hidden_size\": 64}");
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(), HasSubstr("neither model_type nor architectures"));
}

TEST(HuggingFace, AnUnknownFamilyIsRefusedWithTheKnownOnes) {
  const Error error = Fault(R"({"model_type": "lama"})");
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(), HasSubstr("config.json:1:16: family 'lama' is not known (known: "));
  EXPECT_THAT(error.what(), HasSubstr("mixtral"));
  EXPECT_THAT(error.what(), HasSubstr("did you mean 'llama'?"));
}

TEST(HuggingFace, FeaturesThatCannotBePricedAreRefusedInAnyFamily) {
  EXPECT_THAT(Fault(Llama(R"(, "index_topk": 64)")).what(),
              HasSubstr("sparse attention, which selects keys by an indexer, cannot be priced "
                        "(index_topk is 64)"));
  EXPECT_THAT(Fault(Llama(R"(, "draft_vocab_size": 64)")).what(), HasSubstr("drafter"));
  EXPECT_THAT(Fault(Llama(R"(, "block_configs": [{}])")).what(), HasSubstr("block_configs"));
  EXPECT_THAT(Fault(Llama(R"(, "add_cross_attention": true)")).what(), HasSubstr("cross"));
  EXPECT_THAT(Fault(Llama(R"(, "architectures": ["LlamaForCausalLMEagle3"])")).what(),
              HasSubstr("drafter"));
  EXPECT_THAT(Fault(Llama(R"(, "architectures": ["LlamaForSequenceClassification"])")).what(),
              HasSubstr("head"));
  EXPECT_THAT(Fault(Llama(R"(, "layer_types": ["full_attention", "mamba", "mamba"])")).what(),
              HasSubstr("layer_types[1] is \"mamba\""));
}

TEST(HuggingFace, SwitchedOffFeaturesAreNoReasonToRefuse) {
  const Model model = Read(Llama(R"(, "is_encoder_decoder": false, "add_cross_attention": false,
      "index_topk": null)"));
  EXPECT_EQ(model.stack.layers(), 3);
}

TEST(HuggingFace, SpeechOutputIsRefusedAndTheThinkerAloneIsRead) {
  EXPECT_THAT(Fault(R"({"model_type": "qwen2_5_omni", "thinker_config": {}})").what(),
              HasSubstr("enable_audio_output: false"));
}

TEST(HuggingFace, WrongTypesAndSizesAreRefusedWithTheirPlace) {
  const auto with_layers = [](const std::string& value) {
    return "{\"model_type\": \"llama\", \"vocab_size\": 100, \"hidden_size\": 64,\n"
           " \"intermediate_size\": 96, \"num_attention_heads\": 4,\n \"num_hidden_layers\": " +
           value + "}";
  };
  EXPECT_STREQ(Fault(with_layers("\"3\"")).what(),
               "config.json:3:23: num_hidden_layers is \"3\"; a whole number is expected");
  EXPECT_STREQ(Fault(with_layers("0")).what(),
               "config.json:3:23: num_hidden_layers is 0; a whole number from 1 to 10000 is "
               "expected");
  EXPECT_THAT(Fault(with_layers("-4")).what(), HasSubstr("num_hidden_layers is -4"));
  EXPECT_THAT(Fault(with_layers("4000000000")).what(), HasSubstr("from 1 to 10000"));
  EXPECT_THAT(Fault(with_layers("99999999999999999999")).what(), HasSubstr("below 2^63"));
  EXPECT_THAT(Fault(with_layers("[3]")).what(), HasSubstr("num_hidden_layers is [3]"));
  EXPECT_EQ(Fault(with_layers("3.5")).code(), ErrorCode::kBadInput);
}

TEST(HuggingFace, MissingFieldsAreNamedWithTheirPath) {
  EXPECT_STREQ(Fault(R"({"model_type": "llama", "num_hidden_layers": 3})").what(),
               "config.json:1:1: hidden_size, n_embd, n_embed or d_model is missing; a whole "
               "number is expected");
}

TEST(HuggingFace, HeadsMustDivideTheHiddenSizeUnlessTheirWidthIsStated) {
  const std::string odd = R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 64,
 "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 5)";
  EXPECT_STREQ(Fault(odd + "}").what(),
               "config.json:2:74: num_attention_heads is 5; it must divide the hidden size 64, or "
               "head_dim be stated");
  EXPECT_EQ(Read(odd + R"(, "head_dim": 16})").stack.layers(), 3);
  EXPECT_THAT(Fault(Llama(R"(, "num_key_value_heads": 3)")).what(),
              HasSubstr("num_key_value_heads is 3; it must divide the 4 attention heads"));
}

TEST(HuggingFace, MoreExpertsVisitedThanThereAreIsRefused) {
  EXPECT_THAT(Fault(R"({"model_type": "mixtral", "vocab_size": 100, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
      "num_local_experts": 8, "num_experts_per_tok": 9})")
                  .what(),
              HasSubstr("num_experts_per_tok is 9; at most all 8 experts can be visited"));
}

TEST(HuggingFace, TwoNamesOfOneThingMustAgree) {
  EXPECT_THAT(Fault(Llama(R"(, "n_layer": 4)")).what(),
              HasSubstr("n_layer is 4 but num_hidden_layers is 3"));
}

TEST(HuggingFace, SizesThatAreAbsurdTogetherAreRefused) {
  EXPECT_THAT(Fault(R"({"model_type": "llama", "vocab_size": 16000000, "hidden_size": 16777216,
      "intermediate_size": 16777216, "num_hidden_layers": 10000,
      "num_attention_heads": 4})")
                  .what(),
              HasSubstr("at most 1e+15 are read"));
}

TEST(HuggingFace, FieldsAreReadIgnoredWithAReasonOrUnknown) {
  const Model model = Read(Llama(R"(, "eos_token_id": 2, "rope_theta": 10000.0,
      "quantization_config": {"quant_method": "fp8"}, "hidden_dropout_prob": 0.1, "colour": 1)"));
  std::vector<std::string> ignored;
  for (const FieldNote& note : model.ignored) {
    ignored.push_back(note.path);
    EXPECT_FALSE(note.reason.empty()) << note.path;
  }
  EXPECT_THAT(ignored, testing::UnorderedElementsAre("model_type", "eos_token_id", "rope_theta",
                                                     "quantization_config", "hidden_dropout_prob"));
  ASSERT_EQ(model.unknown.size(), 1u);
  EXPECT_EQ(model.unknown.front().path, "colour");
}

TEST(HuggingFace, NothingIsUnknownInWhatTheFamilyNeeds) {
  EXPECT_THAT(Read(Llama("")).unknown, IsEmpty());
}

TEST(HuggingFace, TheFileNamesTheModelUnlessItNamesAPathOfSomebodysMachine) {
  EXPECT_EQ(Read(Llama("")).name, "given");
  EXPECT_EQ(Read(Llama(R"(, "_name_or_path": "meta-llama/Llama-3-8B")")).name, "Llama-3-8B");
  EXPECT_EQ(Read(Llama(R"(, "_name_or_path": "/home/user/weights")")).name, "given");
}

}  // namespace
}  // namespace restow
