// Looks up every constant a job can need, once. What the calibration lacks for a device comes from
// the nearest one it knows (its `nearest` table); nothing is ever silently zero.
#include "plan/time/machine.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "restow/base/check.h"
#include "restow/base/error.h"

namespace restow::plan {
namespace {

constexpr double kTileOutputs = 128 * 256;  // of one tile of a product

// Constants of one job: by device, by software profile, or plain.
class Lookup {
 public:
  explicit Lookup(const Job& job)
      : calibration_(job.calibration),
        device_(job.cluster.device),
        profile_(ProfileOf(job.training, job.calibration)) {}

  const SoftwareProfile& profile() const { return profile_; }
  const std::string& silicon() const { return device_.silicon; }
  double Plain(const std::string& name) const { return calibration_.at(name); }
  // "<group>.<profile>", else the plain group.
  double Profile(const std::string& group) const {
    const std::string own = group + "." + profile_.name;
    return calibration_.has(own) ? calibration_.at(own) : calibration_.at(group);
  }
  // "<group>.<silicon><suffix>", else of the nearest device.
  double Silicon(const std::string& group, const std::string& suffix = "") const {
    return calibration_.at(group + "." + Known(group, suffix) + suffix);
  }
  // The same for what only some devices have: `fallback` where neither it nor a named neighbour
  // has.
  double SiliconOr(const std::string& group, double fallback) const {
    const std::string known = Follow(group, "", false);
    return known.empty() ? fallback : calibration_.at(group + "." + known);
  }
  bool HasSilicon(const std::string& group, const std::string& suffix) const {
    return calibration_.has(group + "." + device_.silicon + suffix);
  }

 private:
  std::string Known(const std::string& group, const std::string& suffix) const {
    std::string silicon = Follow(group, suffix, true);
    if (!silicon.empty()) return silicon;
    throw Error(ErrorCode::kInternal, "calibration '" + calibration_.id + "' has no '" + group +
                                          "' for '" + device_.silicon + "' or a device near it");
  }
  // The device itself or, following the table, the first for which the group has a constant; "".
  std::string Follow(const std::string& group, const std::string& suffix, bool others) const {
    std::string silicon = device_.silicon;
    for (std::size_t step = 0; step < calibration_.nearest.size() + 2; ++step) {
      if (calibration_.has(group + "." + silicon + suffix)) return silicon;
      auto next = calibration_.nearest.find(silicon);
      if (next == calibration_.nearest.end() && others) next = calibration_.nearest.find("other");
      if (next == calibration_.nearest.end()) break;
      silicon = next->second;
    }
    return "";
  }

  const Calibration& calibration_;
  const Device& device_;
  const SoftwareProfile& profile_;
};

bool SixteenBit(DType dtype) { return dtype == DType::kBf16 || dtype == DType::kFp16; }
bool LowPrecision(DType dtype) { return dtype == DType::kFp8 || dtype == DType::kFp4; }

double Peak(const Device& device, DType dtype) {
  const auto found = device.peak.find(dtype);
  if (found != device.peak.end() && found->second.value() > 0) return found->second.value();
  // The two 16-bit formats run at one rate.
  if (SixteenBit(dtype)) {
    const auto other = device.peak.find(dtype == DType::kBf16 ? DType::kFp16 : DType::kBf16);
    if (other != device.peak.end() && other->second.value() > 0) return other->second.value();
  }
  ThrowBadInput("device '" + device.name + "' states no peak rate for " + Name(dtype) +
                "; state it, or train in a precision the device has");
}

// Of the peak. fp32 products have no constant of their own and reach what 16-bit ones do.
double ReachedShare(const Lookup& lookup, DType dtype) {
  if (dtype == DType::kFp4) return lookup.Silicon("matmul", ".fp4");
  return lookup.Silicon("matmul", dtype == DType::kFp8 ? ".fp8" : ".bf16");
}

// What head, loss and attention run in.
DType WideType(const Training& training) {
  const DType dtype = training.precision.compute;
  return LowPrecision(dtype) ? DType::kBf16 : dtype;
}

const char* CastName(const Lookup& lookup, const Training& training) {
  const std::optional<std::string>& recipe = training.options.fp8_recipe;
  if (training.precision.compute == DType::kFp4 || recipe == "mx") return "cast.block_scaled";
  if (recipe == "current-scaling") return "cast.current_scaling";
  if (!recipe && lookup.profile().current_scaling) return "cast.current_scaling";
  return "cast.delayed";
}

void ResolveProducts(const Job& job, const Lookup& lookup, Machine::Constants& k) {
  const Device& device = job.cluster.device;
  const Training& training = job.training;
  const DType dtype = training.precision.compute;
  const bool low = LowPrecision(dtype);
  const DType wide = WideType(training);
  k.element = wide == DType::kFp32 ? 4 : 2;
  k.wide = {Peak(device, wide) * ReachedShare(lookup, wide), k.element, 0};
  k.compute = k.wide;
  if (low) {
    k.compute = {Peak(device, dtype) * ReachedShare(lookup, dtype), 1,
                 lookup.Plain(CastName(lookup, training))};
    if (training.options.fp8_recipe == "rowwise") {
      k.compute.flops_per_s *= lookup.Plain("matmul.rowwise");
    }
  }
  if (device.compute_units <= 0) {
    ThrowBadInput("device '" + device.name +
                  "' states no compute_units (multiprocessors, cube cores)");
  }
  k.units = device.compute_units;
  k.wave = k.units * kTileOutputs;
  k.half_waves = lookup.Plain("matmul.half_waves");
  k.half_inner = lookup.Plain("matmul.half_inner");
  k.product_start = lookup.Plain("matmul.start");
  k.grouped = lookup.Plain("matmul.grouped") * lookup.SiliconOr("matmul.grouped", 1);
  k.memory = device.memory_bandwidth.value() * lookup.Silicon("memory");
  k.traffic = lookup.Profile("traffic");
}

// Bytes of a gradient element as the job states it, at most what the software keeps.
double GradientBytes(const Training& training, double software) {
  return SixteenBit(training.precision.gradients) ? std::min(software, 2.0) : software;
}

void ResolveGradients(const Training& training, const Lookup& lookup, Machine::Constants& k) {
  const SoftwareProfile& software = lookup.profile();
  const FrameworkOptions& options = training.options;
  const double fused = lookup.Profile("wgrad");
  k.accumulate_bytes = GradientBytes(training, fused / 2) * 2;
  const bool separate = options.grad_accumulate == "fp32-separate-kernel" ||
                        (fused > 4 && options.wgrad_fusion == false);
  if (separate) {
    k.accumulate_bytes = std::min(k.accumulate_bytes, 4.0);
    k.separate_bytes = lookup.Plain("wgrad.separate");
  }
  k.gradient_bytes = GradientBytes(training, software.gradient_bytes);
  k.sharded_gradient_bytes = GradientBytes(training, software.sharded_gradient_bytes);
  k.expert_gradient_bytes = GradientBytes(training, 4);
  k.weight_bytes = k.element;
}

void ResolveAttention(const Job& job, const Lookup& lookup, Machine::Constants& k) {
  const double peak = Peak(job.cluster.device, WideType(job.training));
  const bool old = lookup.profile().old_attention && lookup.HasSilicon("attention", ".flash2");
  k.flash = job.training.attention == AttentionKernel::kFlash;
  k.attention_rate = peak * lookup.Silicon("attention", old ? ".flash2" : "");
  k.query_rows = lookup.SiliconOr("attention.query_rows", lookup.Plain("attention.query_rows"));
  k.half_items = lookup.Plain("attention.half_items");
  k.attention_backward = lookup.Plain("attention.backward");
  k.unaligned = lookup.Plain("attention.unaligned");
  k.kernel = lookup.Plain("host.kernel");
  k.softmax_passes = lookup.Plain(lookup.profile().dropout_softmax ? "attention.softmax.dropout"
                                                                   : "attention.softmax");
}

void ResolveLinks(const Job& job, const Lookup& lookup, Machine::Constants& k) {
  const Cluster& cluster = job.cluster;
  RESTOW_CHECK(!cluster.levels.empty());
  for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
    const Level& level = cluster.levels[i];
    const bool inner = i == 0;
    const double share = inner ? lookup.Silicon("link.inner") : lookup.Profile("link.outer");
    const double start = level.latency.value() > 0
                             ? level.latency.value()
                             : lookup.Plain(inner ? "latency.start.inner" : "latency.start.outer");
    k.links.push_back({level.size, level.bandwidth.value() * share, start,
                       lookup.Plain(inner ? "latency.hop.inner" : "latency.hop.outer")});
  }
  k.mesh = cluster.device.full_mesh;
  const double domains = static_cast<double>(cluster.devices) / k.links.front().size;
  k.straggle = lookup.Plain("straggle") * std::log2(std::max(1.0, domains));
}

void ResolveExperts(const Job& job, const Lookup& lookup, Machine::Constants& k) {
  const FrameworkOptions& options = job.training.options;
  const SoftwareProfile& software = lookup.profile();
  const std::string launch = options.moe_launch.value_or("eager");
  const bool low = LowPrecision(job.training.precision.compute);
  const bool fused = launch == "full";
  k.expert_cast = lookup.Plain(fused ? "moe.cast.fused" : "moe.cast.per_expert");
  k.expert_fixed = lookup.Plain(!low || fused ? "moe.expert.fused" : "moe.expert.per_expert");
  k.permute = lookup.Plain(software.fused_permute ? "moe.permute.fused" : "moe.permute.plain");
  k.expert_stall = lookup.Plain("moe.stall");
  k.biased_activation = lookup.Plain("moe.activation.biased");
  k.biased = options.activation == "clamped-swiglu-bias";
  k.imbalance = options.moe_imbalance.value_or(1.0);
  k.expert_exposed = 1.0;
  if (software.nvidia_experts) {
    k.expert_exposed =
        lookup.Plain(options.ep_overlap.value_or(false) ? "exposed.ep.overlap" : "exposed.ep");
    k.one_copy_per_node = options.dispatcher != "all-to-all";
  }
  k.layer_host = lookup.Plain("host.kernels") * k.kernel;
  k.expert_layer_host = k.layer_host;
  if (software.measured_expert_host) {
    k.expert_layer_host =
        lookup.Plain("host.moe." + launch) * lookup.SiliconOr("host.processor", 1);
  }
}

void ResolveExposed(const Job& job, const Lookup& lookup, Machine::Constants& k) {
  const FrameworkOptions& options = job.training.options;
  const SoftwareProfile& software = lookup.profile();
  k.ring_exposed = lookup.Plain("exposed.cp");
  k.data_exposed = lookup.Profile("exposed.dp");
  k.sharded_exposed = software.overlapped_p2p
                          ? k.data_exposed * lookup.Plain("exposed.fsdp.megatron")
                          : k.data_exposed;
  k.p2p_exposed = software.overlapped_p2p ? lookup.Plain("exposed.p2p.interleaved") : 1.0;
  k.tensor_exposed = lookup.Profile("exposed.tp");
  if (options.tp_overlap == false) k.tensor_exposed = 1.0;
  if (options.async_tp.value_or(false)) k.tensor_exposed = lookup.Plain("exposed.tp.async");
  // Wider groups run exposed on some devices, unless the job says otherwise.
  const bool stated = options.tp_overlap.has_value() || options.async_tp.value_or(false);
  k.widest_overlap = stated ? 1e9 : lookup.SiliconOr("exposed.tp.widest", 1e9);
}

double UpdateBytes(const Training& training, const Lookup& lookup) {
  // Adam with fp32 moments reads and writes two moments of 4 bytes: 16 of its bytes.
  const double state = SixteenBit(training.precision.optimizer)      ? 2
                       : training.precision.optimizer == DType::kFp8 ? 1
                                                                     : 4;
  const double moments =
      training.optimizer == Optimizer::kAdamW || training.optimizer == Optimizer::kAdam ? 2
      : training.optimizer == Optimizer::kAdafactor                                     ? 0
                                                                                        : 1;
  const double master = training.precision.master ? 0 : 8;
  return lookup.Plain("optimizer.update") - 16 + moments * 2 * state - master;
}

void ResolveStep(const Job& job, const Lookup& lookup, Machine::Constants& k) {
  const Training& training = job.training;
  k.stall = lookup.Profile("stall");
  k.fixed = lookup.Profile("fixed");
  k.zero_ideal = lookup.Profile("zero.ideal");
  k.broadcast = lookup.Plain("zero.broadcast");
  k.copy_bytes = lookup.profile().sharded_copies ? lookup.Plain("fsdp.copy") : 0.0;
  k.loss_bytes = lookup.Plain(training.loss == LossKernel::kFused ? "loss.fused" : "loss.unfused");
  k.update_seconds = UpdateBytes(training, lookup) / k.memory;
  k.clip_seconds = lookup.Plain("optimizer.clip") / k.memory;
  if (training.optimizer == Optimizer::kMuon) {
    // Newton-Schulz: five times 4·n·m² + 2·m³ FLOPs for an n×m matrix, 20·m per element and more.
    k.update_seconds += 20.0 * job.model.hidden() / k.wide.flops_per_s;
  }
  k.speed = ReleaseFactor(training, job.calibration);
  if (training.options.placement == "numa-tuned") k.speed *= lookup.Plain("placement.numa-tuned");
}

unsigned ModuleBit(const std::string& name) {
  static const std::pair<const char*, unsigned> known[] = {
      {"core_attn", kCoreAttention},
      {"mla_up_proj", kLatentUp},
      {"mlp", kMlp},
      {"moe", kExpertLayer},
      {"moe_act", kExpertActivation},
      {"layernorm", kLayerNorm},
      {"shared_experts", kSharedExperts},
      {"activation-function", kActivationFunction},
      {"per-op", kPerOperator},
  };
  for (const auto& [word, bit] : known) {
    if (name == word) return bit;
  }
  ThrowBadInput("training.options.recompute_modules names '" + name +
                "'; known are core_attn, mla_up_proj, mlp, moe, moe_act, layernorm, "
                "shared_experts, activation-function and per-op");
}

// What `selective` reruns where the job lists no modules.
unsigned DefaultModules(const Training& training) {
  const bool unfused = training.attention == AttentionKernel::kUnfused;
  switch (training.framework) {
    case Framework::kMegatron:
    case Framework::kDeepSpeed:
      return kCoreAttention;
    case Framework::kTorchtitan:
    case Framework::kTorch:
    case Framework::kHyperParallel:
      return kPerOperator;
    case Framework::kMindSpeed:
      return kActivationFunction;
    case Framework::kMindFormers:
      return kLayerNorm | kActivationFunction | (unfused ? kCoreAttention : 0u);
  }
  return kCoreAttention;
}

void ResolveRecompute(const Job& job, const Lookup& lookup, Machine::Constants& k) {
  const Training& training = job.training;
  const std::vector<std::string>& stated = training.options.recompute_modules;
  const bool hyper = training.framework == Framework::kHyperParallel;
  // HyperParallel's switches follow from the mode alone; elsewhere the job's own list stands.
  k.selective = DefaultModules(training);
  if (!stated.empty() && !hyper) {
    k.selective = 0;
    for (const std::string& name : stated) k.selective |= ModuleBit(name);
  }
  k.checkpoint_host = lookup.Plain("host.checkpoint");
  k.dispatch_host = lookup.Plain("host.dispatch") * 0.4 * lookup.Plain("host.kernels");
  k.module_regions = training.framework == Framework::kMegatron;
  const bool python = hyper || training.framework == Framework::kTorch ||
                      training.framework == Framework::kTorchtitan;
  const bool compiled = training.options.compile.value_or(lookup.profile().compiled);
  k.selective_dispatch = python && (k.selective & kPerOperator) && !compiled;
  k.selective_floor = hyper;
}

void ResolveTrained(const Job& job, Machine::Constants& k) {
  k.head_trained = TrainedHead(job);
  k.any_frozen = job.training.lora.has_value() || !job.training.frozen.empty();
  if (!k.any_frozen) return;
  const std::vector<LayerKind>& kinds = job.model.stack.kinds;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    k.trained.push_back({&kinds[i], TrainedLayers(job, static_cast<int>(i))});
  }
  for (std::size_t t = 0; t < job.model.towers.size(); ++t) {
    for (const LayerKind& kind : job.model.towers[t].stack.kinds) {
      k.trained.push_back({&kind, TrainedTower(job, static_cast<int>(t))});
    }
  }
}

}  // namespace

Machine::Machine(const Job& job) : job_(job) {
  const Lookup lookup(job);
  auto k = std::make_unique<Constants>();
  k->software = &lookup.profile();
  ResolveProducts(job, lookup, *k);
  ResolveGradients(job.training, lookup, *k);
  ResolveAttention(job, lookup, *k);
  ResolveLinks(job, lookup, *k);
  ResolveExperts(job, lookup, *k);
  ResolveExposed(job, lookup, *k);
  ResolveStep(job, lookup, *k);
  ResolveRecompute(job, lookup, *k);
  ResolveTrained(job, *k);
  constants_ = std::move(k);
}

Machine::~Machine() = default;

}  // namespace restow::plan
