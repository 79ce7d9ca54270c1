// One of HyperParallel's files as a tree in which every value goes by several names, and a record
// of what was read of it. Private to its readers.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "restow/io/document.h"
#include "restow/schema/job.h"

namespace restow::hyperparallel {

class File {
 public:
  explicit File(const Node& root) : root_(root) {}

  const Node& root() const { return root_; }

  // The value under the first of the dotted paths that has one; null when none has. All of them
  // count as read. Errors: kBadInput when two hold different values.
  const Node* Find(const std::vector<std::string>& paths);
  // The same for a key that either schema keeps in its section: `accelerator.tp_size` or
  // `train.accelerator.tp_size`.
  const Node* Accelerator(std::initializer_list<std::string_view> keys);
  // `training.KEY`, `train.KEY` or `step_scheduler.KEY`.
  const Node* Training(std::initializer_list<std::string_view> keys);

  // What was neither read nor is known to decide nothing about memory and time.
  std::vector<FieldNote> Unknown() const;

 private:
  void Collect(const Node& map, std::vector<FieldNote>& unknown) const;
  bool Settled(const std::string& path) const;
  bool HoldsSettled(const std::string& path) const;

  const Node& root_;
  std::set<std::string> used_;
};

// A number of HyperParallel's, which may also be stated in quotes; from 1.
int Count(const Node* node, int fallback);

// "bfloat16", "bf16", "torch.float32", ...
DType ReadTorchDType(const Node& node);

// A size in GiB: "54GB", "58.0", 58.
Bytes ReadGib(const Node& node);

// The job's model from the file's `model` section. `read` grows by what else was read.
Model ReadModel(File& file, const std::string& base_folder, std::string& read,
                std::vector<FieldNote>& notes);

// Devices and their links. `devices` of 0: not known from elsewhere.
struct ClusterStatement {
  Device device;
  int devices = 0;               // 0: not stated
  int per_node = 0;              // 0: the preset's
  std::optional<Cluster> whole;  // a `cluster` block as job files have it
};
ClusterStatement ReadClusterStatement(File& file, std::vector<FieldNote>& notes);
Cluster BuildCluster(const ClusterStatement& statement, int devices);

// Sequence, batch, precision, optimizer and kernels; what both kinds of file state alike.
Training ReadTraining(File& file, const Model& model, Job& job);

// The mode of `activation_checkpoint` (either schema's), which must be exactly one. Errors: as
// ReadSingleRecompute; kUnsupported for modes of HyperParallel's beyond the three.
Recompute ReadRecomputeMode(File& file);

// What is recomputed today: the mode, on every layer or on so many of each stage. Counts are one
// number for each of the stages, or one for all; the first layers of a stage are the recomputed
// ones. Errors: kBadInput.
RecomputePlan ReadCurrentRecompute(File& file, int layers, int stages);

// `offset`, the layers a stage holds beyond its even share, as layers per stage. Empty where none
// is stated or all are 0; noted and left out where the counts do not make the model.
std::vector<int> ReadStageLayers(File& file, int layers, int stages, std::vector<FieldNote>& notes);

Schedule ReadPipelineSchedule(const Node& node);

// Refuses what this version cannot price: swapping and offloading.
void RefuseSwaps(File& file);

Job ReadTrainer(const Node& document, const std::string& base_folder, std::string& read);
Job ReadSearchConfig(const Node& document, const std::string& base_folder, std::string& read);

}  // namespace restow::hyperparallel
