// The planner held against measured runs. `restow.validation/1`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "restow/base/quantity.h"
#include "restow/schema/calibration.h"
#include "restow/schema/report.h"

namespace restow {

enum class RunQuantity { kMemory, kTime };
const char* Name(RunQuantity quantity);  // "memory", "time"

// What a source read its memory figure from.
enum class MemoryInstrument {
  kAllocated,  // the framework allocator's peak of allocated (or active) bytes
  kReserved,   // the same allocator's peak of reserved bytes
  kProcess,    // the driver's figure for the whole card (nvidia-smi)
};
const char* Name(MemoryInstrument instrument);

// One figure of one run against the price. Units: GiB for memory, seconds for time.
struct RunScore {
  std::string id;
  std::string source, model, device;
  RunQuantity quantity = RunQuantity::kMemory;
  MemoryInstrument instrument = MemoryInstrument::kAllocated;
  double measured = 0;
  double predicted = 0;

  double pct() const { return 100 * (predicted / measured - 1); }
};

// pct = 100·(predicted − measured)/measured; bias is its median.
struct ErrorFigures {
  int n = 0;
  double median_abs_pct = 0, p95_abs_pct = 0, bias_pct = 0;
};

struct UnscorableReason {
  std::string reason;
  int memory_rows = 0, time_rows = 0;
};

// Runs of one model, cluster and software that differ in layout or batch, ranked by seconds per
// sequence: does the planner choose as the measurement does?
struct Sweep {
  std::string name;
  int runs = 0;
  double tau = 0;         // Kendall's, over pairs whose measurements differ by more than 2 %
  double regret_pct = 0;  // time of the planner's choice over the best, both measured
  double spread = 1;      // slowest over fastest
};

struct ErrorGroup {
  std::string name;
  ErrorFigures memory, time;
};

struct Validation {
  std::string version;
  std::string calibration_id;
  int calibration_rows = 0;
  std::vector<LeftOut> left_out;  // of the calibration
  int rows = 0;
  std::vector<RunScore> scores;  // in the order of the rows
  std::vector<UnscorableReason> unscorable;
  ErrorFigures memory, time;
  int oom_known = 0, oom_called_fitting = 0;
  int fits_known = 0, fits_called_oom = 0;
  std::vector<std::string> called_fitting, called_oom;  // ids
  std::vector<Sweep> sweeps;                            // of six runs or more
  double tau_median = 0, tau_min = 0, regret_median_pct = 0, regret_max_pct = 0;  // over sweeps
  std::vector<ErrorGroup> groups;  // by source, model or device
  std::string grouped_by;
  std::vector<RunScore> worst;  // ten, by |pct|
};

// A run shown whole.
struct RunReport {
  std::string id;
  std::string job_text;  // the job file made of the row
  std::vector<std::string> assumed;
  std::string why_not_memory, why_not_time;  // "" where scored
  std::optional<PriceReport> price;
  std::vector<RunScore> scores;
  std::vector<std::pair<double, double>> ranks;  // GiB per stage, measured and predicted
};

}  // namespace restow
