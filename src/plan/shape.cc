#include "plan/shape.h"

namespace restow::plan {

KindTable::KindTable(const Model& model) {
  for (const LayerKind& kind : model.stack.kinds) entries.push_back({&kind, -1});
  for (std::size_t t = 0; t < model.towers.size(); ++t) {
    tower_base.push_back(static_cast<int>(entries.size()));
    for (const LayerKind& kind : model.towers[t].stack.kinds) {
      entries.push_back({&kind, static_cast<int>(t)});
    }
  }
}

}  // namespace restow::plan
