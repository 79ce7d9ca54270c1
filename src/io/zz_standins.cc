// Stand-ins until the parts they belong to are merged.
#include "io/model_reader.h"
#include "restow/io/presets.h"
#include "restow/io/read.h"

namespace restow {
namespace {
int Get(const Node& n, const char* key, int fallback) {
  const Node* found = n.Find(key);
  return found == nullptr || found->is_null() ? fallback : found->AsInt(0, 1 << 30);
}
}  // namespace

Model ReadInlineModel(const Node& node, const std::string& name) {
  node.ExpectMap();
  Model m;
  m.name = name;
  m.family = "llama";
  LayerKind kind;
  kind.name = "dense";
  kind.hidden = Get(node, "hidden", 0);
  kind.attention.heads = Get(node, "heads", 1);
  kind.attention.kv_heads = Get(node, "kv_heads", kind.attention.heads);
  kind.attention.head_dim = Get(node, "head_dim", kind.hidden / kind.attention.heads);
  kind.feed_forward.width = Get(node, "ffn", 1);
  if (const int experts = Get(node, "experts", 0); experts > 0) {
    kind.feed_forward.experts =
        Experts{experts, Get(node, "experts_per_token", 1), Get(node, "expert_ffn", 1)};
  }
  m.stack.kinds = {kind};
  m.stack.order.assign(static_cast<std::size_t>(Get(node, "layers", 1)), 0);
  m.vocab = Get(node, "vocab", 32000);
  m.context = Get(node, "context", 0);
  if (node.Find("warps") != nullptr) m.unknown.push_back({"model.warps", "unknown"});
  return m;
}
Model ReadHuggingFace(const Node& config, const std::string& name) {
  config.ExpectMap();
  const Node* text = config.Find("text_config");
  const Node& c = text == nullptr ? config : *text;
  Model m;
  m.name = name;
  LayerKind kind;
  kind.name = "dense";
  kind.hidden = Get(c, "hidden_size", 1);
  kind.attention.heads = Get(c, "num_attention_heads", 1);
  kind.attention.kv_heads = Get(c, "num_key_value_heads", kind.attention.heads);
  kind.attention.head_dim = Get(c, "head_dim", kind.hidden / kind.attention.heads);
  kind.feed_forward.width = Get(c, "intermediate_size", 1);
  m.stack.kinds = {kind};
  m.stack.order.assign(static_cast<std::size_t>(Get(c, "num_hidden_layers", 1)), 0);
  m.vocab = Get(c, "vocab_size", 1);
  m.context = Get(c, "max_position_embeddings", 0);
  return m;
}
std::vector<std::string> ModelPresets() { return {"llama3-8b", "qwen3-30b-a3b"}; }
Model ModelPreset(const std::string& name, SourcePosition where) {
  for (const std::string& known : ModelPresets()) {
    if (known != name) continue;
    Model m = ReadInlineModel(
        ParseDocument("{layers: 48, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336}",
                      Language::kYaml, "preset"),
        name);
    m.context = 8192;
    return m;
  }
  ThrowBadInput("'" + name + "' is no model preset", where);
}
const Calibration& DefaultCalibration() {
  static const Calibration calibration{"standin", 0, {}};
  return calibration;
}
Calibration ReadCalibration(const Node&) { return {"read", 0, {}}; }
}  // namespace restow
