// TEMPORARY, deleted when the planner and the readers are merged: hand-made answers with which the
// command and its outputs can be exercised.
#include <cstdlib>
#include <thread>

#include "restow/base/text.h"
#include "restow/io/presets.h"
#include "restow/io/read.h"
#include "restow/plan/planner.h"

namespace restow {

const char* const kVersion = "0.1.0";

namespace {

Model FakeModel() {
  Model model;
  model.name = "llama3-70b";
  model.family = "llama";
  LayerKind kind;
  kind.name = "dense";
  kind.hidden = 8192;
  kind.attention.heads = 64;
  kind.attention.kv_heads = 8;
  kind.attention.head_dim = 128;
  kind.feed_forward.width = 28672;
  model.stack.kinds = {kind};
  model.stack.order.assign(80, 0);
  model.vocab = 128256;
  model.context = 8192;
  model.ignored = {{"rope_theta", "decides no price"}, {"bos_token_id", ""}};
  return model;
}

Candidate Fake(int rank, Layout layout, Recompute mode, double gib, double step) {
  Candidate c;
  c.rank = rank;
  c.layout = layout;
  c.recompute.mode = mode;
  for (int s = 0; s < layout.pp; ++s) {
    const int n = 80 / layout.pp;
    c.stage_recompute.push_back({n, mode == Recompute::kOff ? n : 0,
                                 mode == Recompute::kSelective ? n : 0,
                                 mode == Recompute::kFull ? n : 0, 0});
    c.ranks.push_back({s, Bytes(static_cast<std::int64_t>((gib - (s > 1 ? 2 : 0)) * kGiB)),
                       s + 1 == layout.pp ? Phase::kLossBackward : Phase::kBackward});
  }
  c.peak = c.ranks.front().peak;
  c.worst_phase = Phase::kBackward;
  c.capacity = Bytes(80 * kGiB);
  c.limit = Bytes(c.capacity.value() - 3 * kGiB);
  c.fits = c.peak <= c.limit;
  c.reserved_low = c.peak + Bytes(kGiB);
  c.reserved_high = c.peak + Bytes(3 * kGiB);
  c.memory[0] = Bytes(9 * kGiB);
  c.memory[1] = Bytes(18 * kGiB);
  c.memory[2] = Bytes(7 * kGiB);
  c.memory[9] = Bytes(kGiB);
  c.memory[8] = c.peak - Bytes(35 * kGiB);
  c.step = Seconds(step);
  c.time[0] = Seconds(step * 0.6);
  c.time[1] = Seconds(step * 0.1);
  c.time[8] = Seconds(step * 0.2);
  c.time[11] = c.step - c.time[0] - c.time[1] - c.time[8];
  c.hidden[13] = Seconds(step * 0.05);
  c.tokens_per_s_per_device = 512.0 * 8192 / 64 / step;
  c.mfu = 100 * c.tokens_per_s_per_device * 6 * 70.6e9 / 989e12;
  return c;
}

Layout Grid(int tp, int pp, int vpp, int ep = 1) {
  Layout l;
  l.tp = tp;
  l.sp = tp > 1;
  l.pp = pp;
  l.vpp = vpp;
  l.schedule = vpp > 1 ? Schedule::kInterleaved : Schedule::k1F1B;
  l.dp = 64 / tp / pp;
  l.ep = ep;
  l.zero = 1;
  l.micro_batches = 512 / l.dp;
  return l;
}

bool NothingFits(const Job& job) { return job.search.tp.one_value() && job.search.tp.values[0] == 1; }

}  // namespace

PlanReport Plan(const Job& job, const SearchOptions& options) {
  PlanReport r;
  r.version = kVersion;
  r.job_digest = job.digest;
  r.job_name = job.name;
  r.model = job.model;
  r.calibration_id = "restow-2026.1";
  r.calibration_rows = 516;
  if (std::getenv("RESTOW_FAKE_SLOW") != nullptr) {
    for (int i = 0; i < 100 && !options.cancel->load(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (options.progress) options.progress({i, 100, i * 1000, i * 300, Seconds(i > 3 ? 12.5 : 0)});
    }
    r.complete = !options.cancel->load();
  }
  r.candidates = {27240, 9120, 18000, 120};
  r.refused = {{"heads-divide", 12000, Grid(16, 4, 1), {}, "tp 16 does not divide 8 key-value heads",
                {{"tp", 16}, {"kv_heads", 8}}},
               {"layers-divide", 6000, Grid(8, 8, 3), {}, "pp 8 x vpp 3 does not divide 80 layers",
                {{"layers", 80}}}};
  const auto L = Grid(8, 4, 5);
  if (NothingFits(job)) {
    r.nearest_misses = {{Fake(0, Grid(1, 8, 1), Recompute::kFull, 90, 14), Bytes(13 * kGiB),
                         "tp 1 -> 2"},
                        {Fake(0, Grid(1, 4, 1), Recompute::kFull, 120, 13), Bytes(43 * kGiB), ""}};
    return r;
  }
  const Candidate all[] = {Fake(1, L, Recompute::kSelective, 71.3, 12.3),
                           Fake(2, Grid(8, 8, 10, 8), Recompute::kSelective, 60.3, 12.4),
                           Fake(3, Grid(4, 8, 1), Recompute::kFull, 58.3, 13.3)};
  for (int i = 0; i < 3 && i < options.top; ++i) r.ranked.push_back(all[i]);
  r.pareto = {0};
  r.leaner = {Fake(0, Grid(8, 8, 1), Recompute::kFull, 40.1, 15.0)};
  r.current = Fake(0, Grid(8, 4, 1), Recompute::kFull, 50.0, 15.5);
  return r;
}

OneCandidate TheCandidate(const Job& job) {
  Layout l = Grid(job.search.tp.one_value() ? job.search.tp.values[0] : 8,
                  job.search.pp.one_value() ? job.search.pp.values[0] : 4, 1);
  RecomputePlan plan;
  if (job.search.recompute.one_value()) plan.mode = job.search.recompute.values[0];
  return {l, plan};
}
OneCandidate CurrentCandidate(const Job&) { return {Grid(8, 4, 1), {Recompute::kFull, {}}}; }

PriceReport Price(const Job& job, const OneCandidate& one) {
  PriceReport r;
  r.version = kVersion;
  r.job_digest = job.digest;
  r.job_name = job.name;
  r.model = job.model;
  r.calibration_id = "restow-2026.1";
  r.calibration_rows = 516;
  r.candidate = Fake(0, one.layout, one.recompute.mode,
                     one.recompute.mode == Recompute::kOff ? 101.0 : 61.0, 13.0);
  return r;
}

Explanation Explain(const Job& job, const OneCandidate& one, const SearchOptions&) {
  Explanation e;
  e.version = kVersion;
  e.job_digest = job.digest;
  e.job_name = job.name;
  e.layout = one.layout;
  e.recompute = one.recompute;
  e.verdict = Verdict::kRefused;
  e.best = Fake(1, Grid(8, 4, 5), Recompute::kSelective, 71.3, 12.3);
  if (one.layout.tp == 16) {
    e.rule = Refusal{"heads-divide", 1, one.layout, {}, "tp 16 does not divide 8 key-value heads",
                     {{"tp", 16}, {"kv_heads", 8}}};
    e.summary = "The rule heads-divide refuses it.";
    return e;
  }
  e.candidate = Fake(0, one.layout, one.recompute.mode, 101, 12);
  e.over = std::make_pair(MemoryTerm::kActivations, Bytes(24 * kGiB));
  e.summary = "Its peak exceeds the limit; activations take most of it.";
  e.nearest = {{"recompute off -> full", Fake(0, one.layout, Recompute::kFull, 61, 14)}};
  return e;
}

Comparison Compare(const Job& job, const OneCandidate& a, const OneCandidate& b) {
  Comparison c;
  c.version = kVersion;
  c.job_digest = job.digest;
  c.job_name = job.name;
  c.a = Fake(0, a.layout, a.recompute.mode, 71, 12);
  c.b = Fake(0, b.layout, b.recompute.mode, 61, 14);
  for (std::size_t i = 0; i < kMemoryTerms; ++i) c.memory_difference[i] = c.b.memory[i] - c.a.memory[i];
  for (std::size_t i = 0; i < kTimeTerms; ++i) c.time_difference[i] = c.b.time[i] - c.a.time[i];
  return c;
}

std::vector<ActivationPlan> ExportActivationPlans(const Job& job, const OneCandidate& one,
                                                  const std::string& modules) {
  const std::size_t at = modules.find("{layer}");
  if (at == std::string::npos) ThrowBadInput("--modules '" + modules + "' lacks {layer}");
  std::vector<ActivationPlan> plans;
  for (int s = 0; s < one.layout.pp; ++s) {
    ActivationPlan p;
    p.version = kVersion;
    p.job_digest = job.digest;
    p.framework = "megatron";
    p.stage = s;
    p.stages = one.layout.pp;
    ActivationRegion region;
    region.module = modules.substr(0, at) + std::to_string(s) + modules.substr(at + 7);
    region.mode = ActivationMode::kRecompute;
    p.regions = {region};
    plans.push_back(p);
  }
  return plans;
}

Job ReadJob(const Node& document, const std::string&, const ReadOptions& options) {
  Job job;
  document.ExpectMap();
  for (const auto& [key, value] : document.members) {
    if (key != "model" && key != "cluster" && key != "training" && key != "current" &&
        key != "search" && !IsHyperParallel(document)) {
      ThrowBadInput("unknown field '" + key + "'", value.where);
    }
  }
  job.model = FakeModel();
  job.digest = "0123456789abcdef";
  job.name = "fake";
  for (const std::string& dimension : options.dimensions) ApplyDimension(dimension, job.search);
  return job;
}
Job ReadJob(const std::string& path, const ReadOptions& options) {
  Job job = ReadJob(ReadDocument(path), "", options);
  job.name = path.substr(path.find_last_of('/') + 1);
  job.name = job.name.substr(0, job.name.find_last_of('.'));
  return job;
}
bool IsHyperParallel(const Node& document) { return document.Find("accelerator") != nullptr; }
void ApplyDimension(std::string_view argument, SearchSpace& space) {
  const std::string text(argument);
  const std::size_t eq = text.find('=');
  if (eq == std::string::npos) ThrowUsage("'" + text + "' is not dimension=value");
  const std::string name = text.substr(0, eq), value = text.substr(eq + 1);
  if (name == "tp") {
    space.tp = {true, false, {std::atoi(value.c_str())}, {}};
  } else if (name == "pp") {
    space.pp = {true, false, {std::atoi(value.c_str())}, {}};
  } else if (name == "recompute") {
    space.recompute = {true, false, {value == "full" ? Recompute::kFull : Recompute::kOff}, {}};
  } else if (name != "mb") {
    ThrowUsage("no dimension is called '" + name + "'");
  }
}
Model ReadModel(const std::string& name) {
  if (name == "llama3-70b") return FakeModel();
  ReadDocument(name);
  return FakeModel();
}
std::vector<std::string> DevicePresets() { return {"h100-sxm"}; }
std::vector<std::string> ModelPresets() { return {"llama3-70b"}; }
Device DevicePreset(const std::string& name, SourcePosition where) {
  if (name != "h100-sxm") ThrowBadInput("no device preset is called '" + name + "'", where);
  Device d;
  d.name = name;
  d.silicon = "h100";
  d.peak = {{DType::kBf16, FlopsPerSecond(989e12)}, {DType::kFp8, FlopsPerSecond(1979e12)}};
  d.memory = Bytes(80'000'000'000);
  d.memory_bandwidth = BytesPerSecond(3.35e12);
  d.host_link = BytesPerSecond(55e9);
  d.host_memory = Bytes(2'000'000'000'000);
  d.compute_units = 132;
  d.source = "NVIDIA H100 data sheet";
  return d;
}
Model ModelPreset(const std::string&, SourcePosition) { return FakeModel(); }
Cluster ClusterOf(const Device& device, int devices, int per_node) {
  return {device, devices, per_node == 0 ? 8 : per_node,
          {{"nvlink", 8, BytesPerSecond(450e9), Seconds(3e-6)},
           {"ib", devices, BytesPerSecond(50e9), Seconds(5e-6)}}};
}

}  // namespace restow
