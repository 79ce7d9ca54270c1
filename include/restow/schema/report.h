// What the planner answers. Every number shown anywhere comes from these values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "restow/base/quantity.h"
#include "restow/schema/model.h"
#include "restow/schema/strategy.h"

namespace restow {

// Terms of a device's memory at one moment; they sum to its peak exactly. docs/planner.md,
// "Memory".
enum class MemoryTerm {
  kWeights,        // parameters in the compute dtype, plus the fp32 copy FSDP shards
  kGradients,      // gradient buffer
  kOptimizer,      // master weights and optimizer states
  kPlaceholders,   // TransformerEngine's cached weight-gradient stand-ins, once per shape
  kWorkspaces,     // matrix-product workspaces
  kBuffers,        // persistent buffers of the framework: scores, deferred gradients, p2p
  kGathered,       // gathered weights of sharded layers (ZeRO-3, FSDP)
  kReduce,         // buffers of the gradient reduction of sharded layers
  kActivations,    // tensors saved for backward, all micro-batches in flight
  kWorking,        // the layer being run, recomputed or run backward
  kLossHead,       // final norm, logits and loss
  kMtp,            // multi-token prediction: its layer and second head
  kOptimizerStep,  // temporaries of the optimizer step
};
inline constexpr int kMemoryTerms = 13;
using MemoryTerms = std::array<Bytes, kMemoryTerms>;
const char* Name(MemoryTerm term);

// Terms of a step's wall time; they sum to it. Work hidden behind other work is kept apart under
// the same names. docs/planner.md, "Time".
enum class TimeTerm {
  kMatmul,           // weight products, forward and backward, of the pace-setting stage
  kAttention,        // score and value products
  kElementwise,      // norms, activations, residuals, rotary, casts
  kRouting,          // expert permutation, router, fixed cost per expert
  kHead,             // embedding, output projection, loss
  kTower,            // encoder in front of the language model
  kRecompute,        // forward work run again
  kHost,             // what the host cannot launch fast enough
  kTensorParallel,   // tp and sp collectives
  kContextParallel,  // cp exchange
  kExpertParallel,   // dispatch and combine
  kBubble,           // stages waiting for one another
  kPipelineP2p,      // activations between stages
  kDataParallel,     // gradient reduction and weight gathering
  kOptimizer,        // optimizer step and clipping
  kStraggle,         // slowest of many nodes
  kFixed,            // data loading, logging, scheduler
};
inline constexpr int kTimeTerms = 17;
using TimeTerms = std::array<Seconds, kTimeTerms>;
const char* Name(TimeTerm term);

enum class Phase { kLoad, kForward, kBackward, kLossForward, kLossBackward, kOptimizerStep };
const char* Name(Phase phase);

// Layers of one stage by what is done with their activations.
struct StageRecompute {
  int layers = 0;
  int off = 0;
  int selective = 0;
  int full = 0;
  int swapped = 0;
};

// The mode as stated on one part of a multimodal model, with what `selective` keeps there.
struct SubmoduleRecompute {
  std::string name;
  Recompute mode = Recompute::kOff;
  std::vector<std::string> keeps;  // operators; empty unless selective
};

struct StagePeak {
  int stage = 0;
  Bytes peak;
  Phase phase = Phase::kForward;
};

// One layout under one recompute, priced.
struct Candidate {
  int rank = 0;  // 1 is best; 0: not ranked
  Layout layout;
  RecomputePlan recompute;
  std::vector<StageRecompute> stage_recompute;
  std::vector<SubmoduleRecompute> submodules;  // multimodal models only, in the model's order
  bool fits = false;
  Seconds step;
  double tokens_per_s_per_device = 0;
  double mfu =
      0;  // percent of the compute dtype's peak, causal attention halved, recompute not counted
  Bytes peak;                         // allocated, worst rank
  Bytes reserved_low, reserved_high;  // what the allocator is expected to hold for it
  Bytes reserved;                     // the likeliest of that band
  Bytes process;  // what the driver shows for the process: reserved, context and communicators
  Bytes capacity;
  Bytes outside;  // taken outside the allocator where the framework is known to (communicators)
  Bytes limit;    // capacity less margin and outside: fits == (peak <= limit)
  int worst_rank = 0;
  int worst_stage = 0;
  Phase worst_phase = Phase::kForward;
  MemoryTerms memory{};          // of the worst rank at its worst moment
  std::vector<StagePeak> ranks;  // one per stage
  TimeTerms time{};
  TimeTerms hidden{};
  std::string
      selective_note;  // e.g. that recomputing core attention under flash frees next to nothing
};

// A rule that refused candidates, with the numbers of the first one.
struct Refusal {
  std::string rule;
  std::int64_t count = 0;
  Layout example;
  RecomputePlan example_recompute;
  std::string detail;  // one sentence with the numbers
  std::vector<std::pair<std::string, std::int64_t>> numbers;
};

struct NearestMiss {
  Candidate candidate;
  Bytes shortfall;
  std::string remedy;  // the smallest change that would fit
};

struct CandidateCounts {
  std::int64_t total = 0;  // priced + refused + bounded; bounded: cannot win, not looked at further
  std::int64_t priced = 0;
  std::int64_t refused = 0;
  std::int64_t bounded = 0;
};

struct PlanReport {
  std::string version;
  std::string job_digest;
  std::string job_name;
  Model model;
  std::string calibration_id;
  int calibration_rows = 0;
  bool complete = true;
  Seconds elapsed;  // filled by the caller: the planner reads no clock
  CandidateCounts candidates;
  std::vector<Refusal> refused;
  std::optional<Candidate> current;
  std::string current_note;  // why there is no current candidate, or which rule it breaks
  std::vector<Candidate> ranked;
  std::vector<int> pareto;  // indexes into ranked, step time against peak memory
  std::vector<Candidate>
      leaner;  // rest of the whole Pareto front: slower than `ranked`, less memory
  std::vector<NearestMiss> nearest_misses;
};

struct PriceReport {
  std::string version;
  std::string job_digest;
  std::string job_name;
  Model model;
  std::string calibration_id;
  int calibration_rows = 0;
  Candidate candidate;
  std::optional<Refusal> refusal;  // a rule it breaks; priced all the same where that makes sense
};

enum class Verdict { kWins, kLoses, kRefused };
const char* Name(Verdict verdict);

struct NearestChange {
  std::string change;  // "pp 1 -> 2, recompute off -> full"
  Candidate candidate;
};

struct Explanation {
  std::string version;
  std::string job_digest;
  std::string job_name;
  std::optional<Candidate> candidate;  // empty when a rule makes it meaningless to price
  Layout layout;
  RecomputePlan recompute;
  Verdict verdict = Verdict::kLoses;
  std::optional<Refusal> rule;
  std::optional<std::pair<MemoryTerm, Bytes>> over;  // largest term and the bytes over the limit
  std::optional<Candidate> best;                     // what wins instead
  std::string summary;                               // two or three sentences
  std::vector<NearestChange> nearest;
};

struct Comparison {
  std::string version;
  std::string job_digest;
  std::string job_name;
  Candidate a, b;
  std::string a_name, b_name;
  MemoryTerms memory_difference{};  // b - a
  TimeTerms time_difference{};
};

}  // namespace restow
