#include "validate/job_text.h"

#include "restow/io/presets.h"
#include "validate/job_text_parts.h"
#include "validate/row.h"

namespace restow::validate {
namespace {

void WriteCluster(const MeasuredRun& run, JobText* job) {
  Section cluster(&job->yaml, "cluster");
  const std::string device = DeviceOf(run);
  const int devices = Devices(run);
  cluster.Set("device", device);
  cluster.Set("devices", devices);
  const std::string& outer = run.Switch("scale_out_gbyte_per_s");
  if (outer.empty()) return;
  const Cluster usual = ClusterOf(DevicePreset(device), devices, 0);
  std::string levels;
  for (std::size_t i = 0; i < usual.levels.size(); ++i) {
    const Level& level = usual.levels[i];
    const bool network = i > 0 && i + 1 == usual.levels.size();
    levels +=
        fmt::format("\n    - {{name: {}, size: {}, bandwidth: {} GB/s}}", level.name, level.size,
                    network ? outer : fmt::format("{}", level.bandwidth.value() / 1e9));
  }
  cluster.Set("levels", levels);
}

}  // namespace

JobText WriteJobText(const MeasuredRun& run) {
  JobText job;
  job.yaml = fmt::format("# {} of {}\n", run.id, run.where.file);
  job.yaml += fmt::format("name: {}\n", run.id);
  WriteModel(run, &job);
  WriteCluster(run, &job);
  WriteTraining(run, &job);
  WriteLayout(run, &job);
  return job;
}

}  // namespace restow::validate
