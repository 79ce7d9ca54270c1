#include "plan/rules/rules.h"

#include <fmt/format.h>

#include <array>

namespace restow::plan {
namespace {

// Frameworks that follow Megatron-LM's argument checks.
bool IsMegatronLike(Framework framework) {
  return framework == Framework::kMegatron || framework == Framework::kMindSpeed ||
         framework == Framework::kMindFormers;
}

int Divisor(int wanted) { return wanted > 0 ? wanted : 1; }

// The first layer kind for which `broken` holds, or null.
template <class Broken>
const LayerKind* Find(const Job& job, Broken broken) {
  for (const LayerKind& kind : job.model.stack.kinds) {
    if (broken(kind)) return &kind;
  }
  return nullptr;
}

// ---- tensor --------------------------------------------------------------------------------

const LayerKind* HeadsDoNotDivide(const Job& job, const Layout& l) {
  return Find(job, [&](const LayerKind& kind) { return kind.attention.heads % l.tp != 0; });
}
bool HeadsHold(const Job& job, const Layout& l) { return HeadsDoNotDivide(job, l) == nullptr; }
std::string HeadsDetail(const Job& job, const Layout& l) {
  return fmt::format("tp {} does not divide the {} attention heads", l.tp,
                     HeadsDoNotDivide(job, l)->attention.heads);
}
Numbers HeadsNumbers(const Job& job, const Layout& l) {
  return {{"tp", l.tp}, {"heads", HeadsDoNotDivide(job, l)->attention.heads}};
}

// Megatron-LM replicates key and value heads when tp is a multiple of them; DTensor does not.
const LayerKind* KvHeadsDoNotDivide(const Job& job, const Layout& l) {
  const bool replicates = IsMegatronLike(job.training.framework);
  return Find(job, [&](const LayerKind& kind) {
    const Attention& attention = kind.attention;
    if (attention.latent) return false;
    const int kv = Divisor(attention.kv_heads);
    return kv % l.tp != 0 && !(replicates && l.tp % kv == 0);
  });
}
bool KvHeadsHold(const Job& job, const Layout& l) { return KvHeadsDoNotDivide(job, l) == nullptr; }
std::string KvHeadsDetail(const Job& job, const Layout& l) {
  return fmt::format("tp {} neither divides the {} key/value heads nor can {} replicate them", l.tp,
                     KvHeadsDoNotDivide(job, l)->attention.kv_heads, Name(job.training.framework));
}
Numbers KvHeadsNumbers(const Job& job, const Layout& l) {
  return {{"tp", l.tp}, {"kv_heads", KvHeadsDoNotDivide(job, l)->attention.kv_heads}};
}

// The first width that tp must divide and does not; 0 when all do.
int OddWidth(const Job& job, const Layout& l) {
  for (const LayerKind& kind : job.model.stack.kinds) {
    const FeedForward& ffn = kind.feed_forward;
    const int shared = ffn.experts ? ffn.experts->shared_width : 0;
    for (const int width : {kind.hidden, ffn.experts ? 0 : ffn.width, shared}) {
      if (width % l.tp != 0) return width;
    }
  }
  return 0;
}
bool WidthsHold(const Job& job, const Layout& l) { return OddWidth(job, l) == 0; }
std::string WidthsDetail(const Job& job, const Layout& l) {
  return fmt::format("tp {} does not divide the width {}", l.tp, OddWidth(job, l));
}
Numbers WidthsNumbers(const Job& job, const Layout& l) {
  return {{"tp", l.tp}, {"width", OddWidth(job, l)}};
}

bool SpNeedsTpHolds(const Job&, const Layout& l) { return !l.sp || l.tp > 1; }
std::string SpNeedsTpDetail(const Job&, const Layout&) {
  return "sp needs tp above 1: there is nothing to split the sequence over";
}
Numbers TpNumbers(const Job&, const Layout& l) { return {{"tp", l.tp}}; }

// Megatron-LM refuses mixture of experts under tensor parallelism without sequence parallelism.
bool MoeNeedsSpHolds(const Job& job, const Layout& l) {
  return l.tp == 1 || l.sp || !job.model.has_experts() || !IsMegatronLike(job.training.framework);
}
std::string MoeNeedsSpDetail(const Job& job, const Layout& l) {
  return fmt::format("{} runs experts under tp {} only with sequence parallelism",
                     Name(job.training.framework), l.tp);
}

// ---- context -------------------------------------------------------------------------------

// Causal work is balanced by giving each rank one early and one late part: 2·cp parts.
bool CpSequenceHolds(const Job& job, const Layout& l) {
  return l.cp == 1 || job.training.sequence % (2 * l.cp) == 0;
}
std::string CpSequenceDetail(const Job& job, const Layout& l) {
  return fmt::format("2·cp = {} does not divide the sequence of {} tokens", 2 * l.cp,
                     job.training.sequence);
}
Numbers CpSequenceNumbers(const Job& job, const Layout& l) {
  return {{"cp", l.cp}, {"sequence", job.training.sequence}};
}

bool SpSequenceHolds(const Job& job, const Layout& l) {
  return !l.sp || job.training.sequence % (l.cp * l.tp) == 0;
}
std::string SpSequenceDetail(const Job& job, const Layout& l) {
  return fmt::format("cp·tp = {} does not divide the sequence of {} tokens, which sp splits",
                     l.cp * l.tp, job.training.sequence);
}
Numbers SpSequenceNumbers(const Job& job, const Layout& l) {
  return {{"cp", l.cp}, {"tp", l.tp}, {"sequence", job.training.sequence}};
}

// All-to-all exchanges whole heads.
const LayerKind* CpHeadsDoNotDivide(const Job& job, const Layout& l) {
  if (l.cp == 1 || l.cp_kind != CpKind::kAllToAll) return nullptr;
  return Find(job, [&](const LayerKind& kind) {
    const Attention& attention = kind.attention;
    const int kv = attention.latent ? attention.heads : Divisor(attention.kv_heads);
    const int kv_here = kv / l.tp > 0 ? kv / l.tp : 1;
    return attention.heads / l.tp % l.cp != 0 || kv_here % l.cp != 0;
  });
}
bool CpHeadsHold(const Job& job, const Layout& l) { return CpHeadsDoNotDivide(job, l) == nullptr; }
std::string CpHeadsDetail(const Job& job, const Layout& l) {
  const Attention& attention = CpHeadsDoNotDivide(job, l)->attention;
  return fmt::format(
      "cp {} by all-to-all does not divide the heads of a rank: {} query and {} key/value heads "
      "over tp {}",
      l.cp, attention.heads, attention.latent ? attention.heads : attention.kv_heads, l.tp);
}
Numbers CpHeadsNumbers(const Job& job, const Layout& l) {
  const Attention& attention = CpHeadsDoNotDivide(job, l)->attention;
  return {{"cp", l.cp}, {"tp", l.tp}, {"heads", attention.heads}, {"kv_heads", attention.kv_heads}};
}

// ---- experts -------------------------------------------------------------------------------

const Experts* ExpertsOf(const Job& job) {
  for (const LayerKind& kind : job.model.stack.kinds) {
    if (kind.feed_forward.experts) return &*kind.feed_forward.experts;
  }
  return nullptr;
}

bool NoExpertsHolds(const Job& job, const Layout& l) {
  return ExpertsOf(job) != nullptr || (l.ep == 1 && l.etp == 1);
}
std::string NoExpertsDetail(const Job& job, const Layout& l) {
  return fmt::format("{} has no experts to spread over ep {} and etp {}", job.model.name, l.ep,
                     l.etp);
}
Numbers ExpertNumbers(const Job& job, const Layout& l) {
  const Experts* experts = ExpertsOf(job);
  return {{"ep", l.ep},
          {"etp", l.etp},
          {"experts", experts != nullptr ? experts->count : 0},
          {"expert_ffn", experts != nullptr ? experts->width : 0}};
}

bool ExpertsDivideHolds(const Job& job, const Layout& l) {
  const Experts* experts = ExpertsOf(job);
  return experts == nullptr || experts->count % l.ep == 0;
}
std::string ExpertsDivideDetail(const Job& job, const Layout& l) {
  return fmt::format("ep {} does not divide the {} experts", l.ep, ExpertsOf(job)->count);
}

bool EtpWidthHolds(const Job& job, const Layout& l) {
  const Experts* experts = ExpertsOf(job);
  return experts == nullptr || experts->width % l.etp == 0;
}
std::string EtpWidthDetail(const Job& job, const Layout& l) {
  return fmt::format("etp {} does not divide the expert width {}", l.etp, ExpertsOf(job)->width);
}

// ---- pipeline ------------------------------------------------------------------------------

bool WorldHolds(const Job& job, const Layout& l) {
  return static_cast<std::int64_t>(l.tp) * l.cp * l.pp * l.dp == job.cluster.devices;
}
std::string WorldDetail(const Job& job, const Layout& l) {
  return fmt::format("tp·cp·pp·dp = {}·{}·{}·{} = {} is not the {} devices", l.tp, l.cp, l.pp, l.dp,
                     static_cast<std::int64_t>(l.tp) * l.cp * l.pp * l.dp, job.cluster.devices);
}
Numbers WorldNumbers(const Job& job, const Layout& l) {
  return {{"tp", l.tp}, {"cp", l.cp}, {"pp", l.pp}, {"dp", l.dp}, {"devices", job.cluster.devices}};
}

bool ExpertGridHolds(const Job&, const Layout& l) {
  return static_cast<std::int64_t>(l.tp) * l.cp * l.dp %
             (static_cast<std::int64_t>(l.ep) * l.etp) ==
         0;
}
std::string ExpertGridDetail(const Job&, const Layout& l) {
  return fmt::format("ep·etp = {}·{} = {} does not tile the {} devices of a stage", l.ep, l.etp,
                     l.ep * l.etp, l.tp * l.cp * l.dp);
}
Numbers ExpertGridNumbers(const Job&, const Layout& l) {
  return {{"ep", l.ep}, {"etp", l.etp}, {"devices_of_a_stage", l.tp * l.cp * l.dp}};
}

bool PpLayersHold(const Job& job, const Layout& l) { return l.pp <= job.model.stack.layers(); }
std::string PpLayersDetail(const Job& job, const Layout& l) {
  return fmt::format("pp {} leaves stages without one of the {} layers", l.pp,
                     job.model.stack.layers());
}
Numbers PpLayersNumbers(const Job& job, const Layout& l) {
  return {{"pp", l.pp}, {"layers", job.model.stack.layers()}};
}

// ---- batch ---------------------------------------------------------------------------------

bool BatchReplicasHold(const Job& job, const Layout& l) {
  return job.training.global_batch % l.dp == 0;
}
std::string BatchReplicasDetail(const Job& job, const Layout& l) {
  return fmt::format("dp {} does not divide the global batch of {} sequences", l.dp,
                     job.training.global_batch);
}
Numbers BatchNumbers(const Job& job, const Layout& l) {
  return {
      {"dp", l.dp}, {"micro_batch", l.micro_batch}, {"global_batch", job.training.global_batch}};
}

bool BatchHolds(const Job& job, const Layout& l) {
  return job.training.global_batch % (static_cast<std::int64_t>(l.dp) * l.micro_batch) == 0;
}
std::string BatchDetail(const Job& job, const Layout& l) {
  return fmt::format("micro_batch·dp = {}·{} does not divide the global batch of {} sequences",
                     l.micro_batch, l.dp, job.training.global_batch);
}

// ---- schedule ------------------------------------------------------------------------------

bool VppNeedsPpHolds(const Job&, const Layout& l) { return l.vpp == 1 || l.pp > 1; }
std::string VppNeedsPpDetail(const Job&, const Layout& l) {
  return fmt::format("vpp {} needs a pipeline: pp is 1", l.vpp);
}
Numbers VppNumbers(const Job& job, const Layout& l) {
  return {{"pp", l.pp},
          {"vpp", l.vpp},
          {"layers", job.model.stack.layers()},
          {"micro_batches", l.micro_batches}};
}

bool ScheduleVppHolds(const Job&, const Layout& l) {
  return (l.schedule == Schedule::kInterleaved) == (l.vpp > 1);
}
std::string ScheduleVppDetail(const Job&, const Layout& l) {
  return l.vpp > 1
             ? fmt::format("vpp {} needs the interleaved schedule, not {}", l.vpp, Name(l.schedule))
             : std::string("the interleaved schedule needs vpp above 1");
}

// Where embedding and loss count as layers, the first and the last chunk may hold nothing else.
bool VppLayersHold(const Job& job, const Layout& l) {
  const FrameworkOptions& options = job.training.options;
  const int edges = options.embedding_and_loss_count_as_layers.value_or(false) ? 2 : 0;
  const bool stated = static_cast<int>(options.chunk_layers.size()) == l.pp * l.vpp;
  return stated || l.pp * l.vpp <= job.model.stack.layers() + edges;
}
std::string VppLayersDetail(const Job& job, const Layout& l) {
  return fmt::format("pp·vpp = {} leaves chunks without one of the {} layers", l.pp * l.vpp,
                     job.model.stack.layers());
}

// Megatron-LM's interleaved schedule runs micro-batches in groups of pp, unless the job states the
// group, where a shorter last group is allowed.
bool InterleaveGroupsHold(const Job& job, const Layout& l) {
  return l.vpp == 1 || job.training.options.interleave_group.has_value() ||
         l.micro_batches % l.pp == 0;
}
std::string InterleaveGroupsDetail(const Job&, const Layout& l) {
  return fmt::format(
      "the interleaved schedule runs micro-batches in groups of pp: {} do not divide by {}",
      l.micro_batches, l.pp);
}

// ---- state ---------------------------------------------------------------------------------

// Gradient buffers sharded from the start cannot accumulate over the micro-batches of a pipeline in
// Megatron-like frameworks: Megatron-FSDP runs with pp 1.
bool ZeroPipelineHolds(const Job& job, const Layout& l) {
  return l.zero < 2 || l.pp == 1 || !IsMegatronLike(job.training.framework);
}
std::string ZeroPipelineDetail(const Job& job, const Layout& l) {
  return fmt::format("zero {} does not run with a pipeline in {}: pp is {}", l.zero,
                     Name(job.training.framework), l.pp);
}
Numbers ZeroNumbers(const Job&, const Layout& l) {
  return {{"zero", l.zero}, {"zero_span", l.zero_span}, {"pp", l.pp}, {"dp", l.dp}, {"cp", l.cp}};
}

// torchtitan either replicates (DDP) or shards with FSDP2, whose states follow its weights.
bool ZeroFrameworkHolds(const Job& job, const Layout& l) {
  return job.training.framework != Framework::kTorchtitan || l.zero != 1;
}
std::string ZeroFrameworkDetail(const Job&, const Layout&) {
  return "torchtitan has no optimizer-only sharding (zero 1): it replicates, or shards with FSDP2";
}

bool ZeroSpanHolds(const Job&, const Layout& l) {
  return l.zero_span == 0 ||
         (l.zero > 0 && l.zero_span <= l.dp * l.cp && l.dp * l.cp % l.zero_span == 0);
}
std::string ZeroSpanDetail(const Job&, const Layout& l) {
  if (l.zero == 0) return "zero_span needs zero above 0: nothing is sharded";
  return fmt::format("zero_span {} does not divide the {} ranks of dp·cp", l.zero_span,
                     l.dp * l.cp);
}

constexpr std::array<Rule, 23> kRules = {{
    {"tp-heads", RuleLevel::kTensor, HeadsHold, HeadsDetail, HeadsNumbers},
    {"tp-kv-heads", RuleLevel::kTensor, KvHeadsHold, KvHeadsDetail, KvHeadsNumbers},
    {"tp-width", RuleLevel::kTensor, WidthsHold, WidthsDetail, WidthsNumbers},
    {"sp-needs-tp", RuleLevel::kTensor, SpNeedsTpHolds, SpNeedsTpDetail, TpNumbers},
    {"moe-needs-sp", RuleLevel::kTensor, MoeNeedsSpHolds, MoeNeedsSpDetail, TpNumbers},
    {"cp-sequence", RuleLevel::kContext, CpSequenceHolds, CpSequenceDetail, CpSequenceNumbers},
    {"sp-sequence", RuleLevel::kContext, SpSequenceHolds, SpSequenceDetail, SpSequenceNumbers},
    {"cp-heads", RuleLevel::kContext, CpHeadsHold, CpHeadsDetail, CpHeadsNumbers},
    {"no-experts", RuleLevel::kExperts, NoExpertsHolds, NoExpertsDetail, ExpertNumbers},
    {"ep-experts", RuleLevel::kExperts, ExpertsDivideHolds, ExpertsDivideDetail, ExpertNumbers},
    {"etp-width", RuleLevel::kExperts, EtpWidthHolds, EtpWidthDetail, ExpertNumbers},
    {"world", RuleLevel::kPipeline, WorldHolds, WorldDetail, WorldNumbers},
    {"expert-grid", RuleLevel::kPipeline, ExpertGridHolds, ExpertGridDetail, ExpertGridNumbers},
    {"pp-layers", RuleLevel::kPipeline, PpLayersHold, PpLayersDetail, PpLayersNumbers},
    {"batch-replicas", RuleLevel::kPipeline, BatchReplicasHold, BatchReplicasDetail, BatchNumbers},
    {"batch", RuleLevel::kBatch, BatchHolds, BatchDetail, BatchNumbers},
    {"vpp-needs-pp", RuleLevel::kSchedule, VppNeedsPpHolds, VppNeedsPpDetail, VppNumbers},
    {"schedule-vpp", RuleLevel::kSchedule, ScheduleVppHolds, ScheduleVppDetail, VppNumbers},
    {"vpp-layers", RuleLevel::kSchedule, VppLayersHold, VppLayersDetail, VppNumbers},
    {"interleave-groups", RuleLevel::kSchedule, InterleaveGroupsHold, InterleaveGroupsDetail,
     VppNumbers},
    {"zero-pipeline", RuleLevel::kState, ZeroPipelineHolds, ZeroPipelineDetail, ZeroNumbers},
    {"zero-framework", RuleLevel::kState, ZeroFrameworkHolds, ZeroFrameworkDetail, ZeroNumbers},
    {"zero-span", RuleLevel::kState, ZeroSpanHolds, ZeroSpanDetail, ZeroNumbers},
}};

// Where the rules of a level stand: FirstBroken runs for every branch of a search.
struct LevelRange {
  std::size_t begin = 0, end = 0;
};

const std::array<LevelRange, 7>& Ranges() {
  static const std::array<LevelRange, 7> ranges = [] {
    std::array<LevelRange, 7> all{};
    for (std::size_t i = 0; i < kRules.size(); ++i) {
      LevelRange& range = all[static_cast<std::size_t>(kRules[i].level)];
      if (range.end == 0) range.begin = i;
      range.end = i + 1;
    }
    return all;
  }();
  return ranges;
}

}  // namespace

const std::vector<Rule>& Rules() {
  static const std::vector<Rule> rules(kRules.begin(), kRules.end());
  return rules;
}

const Rule* FirstBroken(RuleLevel level, const Job& job, const Layout& layout) {
  const std::vector<Rule>& rules = Rules();
  const LevelRange range = Ranges()[static_cast<std::size_t>(level)];
  for (std::size_t i = range.begin; i < range.end; ++i) {
    if (!rules[i].holds(job, layout)) return &rules[i];
  }
  return nullptr;
}

Refusal MakeRefusal(const Rule& rule, const Job& job, const Layout& layout) {
  Refusal refusal;
  refusal.rule = rule.name;
  refusal.count = 1;
  refusal.example = layout;
  refusal.detail = rule.detail(job, layout);
  refusal.numbers = rule.numbers(job, layout);
  return refusal;
}

std::optional<Refusal> CheckRules(const Job& job, const Layout& layout) {
  for (const Rule& rule : Rules()) {
    if (!rule.holds(job, layout)) return MakeRefusal(rule, job, layout);
  }
  return std::nullopt;
}

}  // namespace restow::plan
