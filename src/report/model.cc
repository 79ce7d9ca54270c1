// The answer of `models`: what was read of a model.
#include <fmt/format.h>

#include "report/text.h"
#include "restow/base/units.h"
#include "restow/report/table.h"

namespace restow {
namespace {

using report::Align;
using report::Column;
using report::Ink;
using report::Note;
using report::Row;

constexpr std::size_t kLabel = 18;

std::string AttentionText(const Attention& a) {
  std::string text;
  if (a.latent) {
    text = fmt::format("{} heads, latent: query rank {}, key-value rank {}, head {}+{} rotary, value {}",
                       a.heads, a.latent->q_rank, a.latent->kv_rank, a.latent->nope_dim,
                       a.latent->rope_dim, a.latent->value_dim);
  } else {
    text = fmt::format("{} heads of {}, {} key-value heads", a.heads, a.head_dim, a.kv_heads);
  }
  if (a.window != 0) text += fmt::format(", window {}", FormatCount(a.window));
  if (!a.causal) text += ", not causal";
  return text;
}

std::string FeedForwardText(const FeedForward& f) {
  if (!f.experts) return fmt::format("{}width {}", f.gated ? "gated, " : "", FormatCount(f.width));
  std::string text = fmt::format("{} experts of width {}, {} per token", f.experts->count,
                                 FormatCount(f.experts->width), f.experts->per_token);
  if (f.experts->shared_width != 0) {
    text += fmt::format(", shared width {}", FormatCount(f.experts->shared_width));
  }
  return text;
}

int CountOf(const LayerStack& stack, std::size_t kind) {
  int count = 0;
  for (const int k : stack.order) count += k == static_cast<int>(kind) ? 1 : 0;
  return count;
}

std::string StackText(const LayerStack& stack, const TableStyle& style) {
  std::string text;
  for (std::size_t i = 0; i < stack.kinds.size(); ++i) {
    const LayerKind& kind = stack.kinds[i];
    const std::int64_t parameters = CountParameters(kind).total();
    text += Note(style, fmt::format("  {} x {}", CountOf(stack, i), kind.name),
                 fmt::format("hidden {}, {}, {}; {} parameters each", FormatCount(kind.hidden),
                             AttentionText(kind.attention), FeedForwardText(kind.feed_forward),
                             FormatCount(parameters)),
                 kLabel);
  }
  return text;
}

std::string FieldsText(const char* label, const std::vector<FieldNote>& notes,
                       const TableStyle& style) {
  std::string text;
  for (const FieldNote& note : notes) {
    if (!text.empty()) text += ", ";
    text += note.path;
    if (!note.reason.empty()) text += " (" + note.reason + ")";
  }
  return Note(style, label, text.empty() ? "none" : text, kLabel);
}

}  // namespace

std::string DrawModel(const Model& model, const TableStyle& style) {
  const ModelParameters n = CountParameters(model);
  std::string text = report::Paint(style, Ink::kBold, model.name) + "  " + model.family + "\n\n";
  const auto add = [&](const char* label, const std::string& value) {
    text += Note(style, label, value, kLabel);
  };
  add("parameters", FormatCount(n.total) + "  (" + FormatParameters(n.total) + ")");
  add("active", FormatCount(n.active) + "  (" + FormatParameters(n.active) + ")");
  if (model.mtp_layers > 0) {
    add("multi-token", fmt::format("{} parameters in {} prediction layer{}, not counted above",
                                   FormatCount(n.mtp), model.mtp_layers,
                                   model.mtp_layers == 1 ? "" : "s"));
  }
  add("embedding", FormatCount(n.embedding));
  add("output layer", model.tied ? "tied to the embedding" : FormatCount(n.head));
  add("vocabulary", FormatCount(model.vocab));
  if (model.context != 0) add("context", FormatCount(model.context) + " tokens at most");
  add("layers", FormatCount(model.stack.layers()));
  text += StackText(model.stack, style);
  for (const Tower& tower : model.towers) {
    add("tower", fmt::format("{}: {} layers, {} parameters", tower.name, tower.stack.layers(),
                             FormatCount(CountParameters(tower))));
    text += StackText(tower.stack, style);
  }
  if (model.projector_parameters != 0) {
    add("projector", FormatCount(model.projector_parameters) + " parameters");
  }
  text += FieldsText("ignored fields", model.ignored, style);
  return text + FieldsText("unknown fields", model.unknown, style);
}

std::string DrawModels(const std::vector<Model>& models, const TableStyle& style) {
  std::vector<Row> rows;
  for (const Model& model : models) {
    const ModelParameters n = CountParameters(model);
    rows.push_back({{model.name, model.family, FormatParameters(n.total),
                     FormatParameters(n.active), FormatCount(model.stack.layers()),
                     FormatCount(model.hidden()), FormatCount(model.vocab)},
                    Ink::kPlain,
                    ""});
  }
  const std::vector<Column> columns = {{"preset", "", Align::kLeft, true},
                                       {"family", "", Align::kLeft, false},
                                       {"parameters", "", Align::kRight, false},
                                       {"active", "", Align::kRight, false},
                                       {"layers", "", Align::kRight, false},
                                       {"hidden", "", Align::kRight, false},
                                       {"vocabulary", "", Align::kRight, false}};
  return report::DrawTable(style, columns, rows);
}

}  // namespace restow
