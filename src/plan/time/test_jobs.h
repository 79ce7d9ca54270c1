// Jobs for tests, written by hand: devices with data-sheet figures, dense and expert models.
// Figures: time-model.md section 4.
#pragma once

#include <string>
#include <vector>

#include "plan/pipeline/stages.h"
#include "plan/time/time.h"
#include "restow/base/check.h"
#include "restow/io/presets.h"
#include "restow/io/read.h"
#include "restow/schema/job.h"

namespace restow::plan::testing {

// The research note's own constants: what its figures were worked out with.
inline const Calibration& ResearchCalibration() {
  static const Calibration calibration = ReadCalibration(ReadDocument(
      std::string(RESTOW_SOURCE_DIR) + "/src/plan/time/testdata/research_constants.yaml"));
  return calibration;
}

struct DeviceFigures {
  const char* silicon;
  double bf16, fp8, fp4;  // TFLOP/s
  double memory, inner;   // GB/s
  int domain;
  double outer;  // GB/s
  int units;
  bool mesh;
};

inline const DeviceFigures& FiguresOf(const std::string& silicon) {
  static const DeviceFigures known[] = {
      {"a100", 312, 0, 0, 2039, 300, 8, 25, 108, false},
      {"a100-40", 312, 0, 0, 1555, 300, 8, 25, 108, false},
      {"h100", 989, 1979, 0, 3350, 450, 8, 50, 132, false},
      {"h100-500w", 989, 1979, 0, 2400, 450, 8, 50, 132, false},
      {"h200", 989, 1979, 0, 4800, 450, 8, 50, 132, false},
      {"b200", 2250, 4500, 9000, 8000, 900, 8, 50, 148, false},
      {"b300", 2250, 4500, 13500, 8000, 900, 8, 100, 148, false},
      {"gb200", 2450, 4900, 9800, 8000, 900, 64, 50, 148, false},
      {"gb300", 2450, 4900, 14700, 8000, 900, 64, 100, 148, false},
      {"910b", 313, 0, 0, 1600, 196, 8, 25, 48, true},
  };
  for (const DeviceFigures& figures : known) {
    if (silicon == figures.silicon) return figures;
  }
  RESTOW_CHECK(false && "no such device in the tests");
  return known[0];
}

// `outer` 0: the device's.
inline Cluster ClusterFor(const std::string& silicon, int devices, double outer = 0) {
  const DeviceFigures& f = FiguresOf(silicon);
  Cluster cluster;
  Device& device = cluster.device;
  device.name = silicon;
  device.silicon = silicon == "a100-40" ? "a100" : silicon;
  device.peak[DType::kBf16] = FlopsPerSecond(f.bf16 * 1e12);
  if (f.fp8 > 0) device.peak[DType::kFp8] = FlopsPerSecond(f.fp8 * 1e12);
  if (f.fp4 > 0) device.peak[DType::kFp4] = FlopsPerSecond(f.fp4 * 1e12);
  device.memory_bandwidth = BytesPerSecond(f.memory * 1e9);
  device.compute_units = f.units;
  device.full_mesh = f.mesh;
  cluster.devices = devices;
  cluster.per_node = f.domain;
  cluster.levels.push_back({"node", f.domain, BytesPerSecond(f.inner * 1e9), Seconds(0)});
  if (devices > f.domain) {
    const double rate = outer > 0 ? outer : f.outer;
    cluster.levels.push_back({"network", devices, BytesPerSecond(rate * 1e9), Seconds(0)});
  }
  return cluster;
}

inline LayerKind DenseKind(int hidden, int width, int heads, int kv_heads, int head_dim,
                           bool gated = true) {
  LayerKind kind;
  kind.name = "dense";
  kind.hidden = hidden;
  kind.attention.heads = heads;
  kind.attention.kv_heads = kv_heads;
  kind.attention.head_dim = head_dim;
  kind.feed_forward.width = width;
  kind.feed_forward.gated = gated;
  return kind;
}

inline Model ModelOf(const LayerKind& kind, int layers, int vocab) {
  Model model;
  model.stack.kinds = {kind};
  model.stack.order.assign(static_cast<std::size_t>(layers), 0);
  model.vocab = vocab;
  return model;
}

// Llama-2 7B: 32 layers of 4096, 11008 wide.
inline Job SmallJob(const std::string& silicon = "h100", int devices = 8) {
  Job job;
  job.model = ModelOf(DenseKind(4096, 11008, 32, 32, 128), 32, 32000);
  job.cluster = ClusterFor(silicon, devices);
  job.training.sequence = 4096;
  job.training.global_batch = 64;
  job.calibration = ResearchCalibration();
  return job;
}

// One mode for every layer, equal stages: what is left over goes to the first ones.
inline StageSplit EvenSplit(const Model& model, int pp, int vpp, Recompute mode) {
  StageSplit split;
  split.chunks.assign(static_cast<std::size_t>(pp),
                      std::vector<Chunk>(static_cast<std::size_t>(vpp)));
  const int parts = pp * vpp, layers = model.stack.layers();
  std::size_t layer = 0;
  for (int part = 0; part < parts; ++part) {
    Chunk& chunk =
        split.chunks[static_cast<std::size_t>(part % pp)][static_cast<std::size_t>(part / pp)];
    const int count = layers / parts + (part < layers % parts ? 1 : 0);
    for (int i = 0; i < count; ++i, ++layer)
      chunk.runs.push_back({model.stack.order[layer], mode, 1});
  }
  split.chunks.front().front().embedding = true;
  split.chunks.back().back().head = true;
  return split;
}

inline LayerSecondsTable PriceTable(const Machine& machine, const KindTable& kinds,
                                    const MicroShape& shape) {
  LayerSecondsTable table;
  for (const KindTable::Entry& kind : kinds.entries) {
    std::array<LayerSeconds, kRecomputeModes> modes;
    for (int mode = 0; mode < kRecomputeModes; ++mode) {
      modes[static_cast<std::size_t>(mode)] =
          PriceLayerSeconds(machine, kind, shape, static_cast<Recompute>(mode));
    }
    table.push_back(modes);
  }
  return table;
}

// Everything a step is priced from, for one mode.
struct Priced {
  Job job;
  Layout layout;
  KindTable kinds;
  Machine machine;
  StageSplit split;
  LayerSecondsTable table;
  EdgeSeconds edges;
  StageSeconds stages;
  StageTraffic traffic;

  Priced(Job from, const Layout& l, Recompute mode = Recompute::kOff)
      : job(std::move(from)),
        layout(l),
        kinds(job.model),
        machine(job),
        split(EvenSplit(job.model, l.pp, l.vpp, mode)),
        table(PriceTable(machine, kinds, ShapeOf(l))),
        edges(PriceEdges(machine, ShapeOf(l))),
        stages(AssembleStages(machine, kinds, split, table, edges)) {
    for (const int kind : job.model.stack.order) {
      const LayerParameters n =
          CountParameters(job.model.stack.kinds[static_cast<std::size_t>(kind)]);
      traffic.dense += static_cast<double>(n.attention + n.feed_forward) / l.tp / l.pp;
      traffic.expert += static_cast<double>(n.experts) / (l.ep * l.etp) / l.pp;
    }
    traffic.table = static_cast<double>(job.model.vocab) * job.model.hidden() / l.tp;
    traffic.layers_per_stage = static_cast<double>(job.model.stack.layers()) / l.pp;
  }
  Priced(const Priced&) = delete;

  StepSeconds Step() const {
    return AssembleStep(machine, layout, kinds, split, table, edges, stages, traffic);
  }
};

inline Seconds TermOf(const TimeTerms& terms, TimeTerm term) {
  return terms[static_cast<std::size_t>(term)];
}

}  // namespace restow::plan::testing
